/* SPDX-License-Identifier: MIT
 *
 * Numbers with units, for people: the table of prefixes and the number of digits.
 */
#include "lab/report/units.h"

#include <math.h>
#include <string.h>

const char *bn_units_of(const char *metric, const char *unit)
{
    return strcmp(unit, "1/s") == 0 && strstr(metric, "token") != NULL ? "tok/s" : unit;
}

struct bn_units_scale bn_units_scale(const char *unit, double value)
{
    static const struct {
        const char *unit;
        double from; /* the row applies to values of this size and above */
        struct bn_units_scale scale;
    } ROWS[] = {
        {"ns", 1e9, {1e-9, "s"}},
        {"ns", 1e6, {1e-6, "ms"}},
        {"ns", 1e3, {1e-3, "us"}},
        {"bytes", 0x1p40, {0x1p-40, "TiB"}},
        {"bytes", 0x1p30, {0x1p-30, "GiB"}},
        {"bytes", 0x1p20, {0x1p-20, "MiB"}},
        {"bytes", 0x1p10, {0x1p-10, "KiB"}},
        {"bytes", 0, {1, "B"}},
        {"bytes/s", 1e9, {1e-9, "GB/s"}},
        {"bytes/s", 1e6, {1e-6, "MB/s"}},
        {"bytes/s", 1e3, {1e-3, "kB/s"}},
        {"bytes/s", 0, {1, "B/s"}},
        {"MAC/s", 1e9, {1e-9, "GMAC/s"}},
        {"MAC/s", 1e6, {1e-6, "MMAC/s"}},
        {"FLOP/s", 1e9, {1e-9, "GFLOP/s"}},
        {"FLOP/s", 1e6, {1e-6, "MFLOP/s"}},
        {"ops/s", 1e9, {1e-9, "Gop/s"}},
        {"ops/s", 1e6, {1e-6, "Mop/s"}},
        {"1/s", 1e9, {1e-9, "G/s"}},
        {"1/s", 1e6, {1e-6, "M/s"}},
        {"1/s", 1e4, {1e-3, "k/s"}},
        {"1/s", 0, {1, "/s"}},
        {"1", 0, {1, ""}},
    };
    value = fabs(value);
    for (size_t i = 0; i < BN_ARRAY_LEN(ROWS); i++)
        if (strcmp(ROWS[i].unit, unit) == 0 && (ROWS[i].from <= 0 || value >= ROWS[i].from))
            return ROWS[i].scale;
    return (struct bn_units_scale){1, unit};
}

void bn_units_number(struct bn_buf *out, double value, struct bn_units_scale scale)
{
    double shown = value * scale.factor, size = fabs(shown);
    if (!isfinite(shown))
        bn_buf_puts(out, "-");
    else if (size > 0 && (size < 1e-4 || size >= 1e15))
        bn_buf_printf(out, "%.3e", shown);
    else if (size >= 1000 || floor(size) >= size)
        bn_buf_printf(out, "%.0f", shown);
    else
        bn_buf_printf(out, "%.*f", (int)fmax(0, 3 - floor(log10(size))), shown);
}

void bn_units_value(struct bn_buf *out, double value, const char *unit)
{
    struct bn_units_scale scale = bn_units_scale(unit, value);
    bn_units_number(out, value, scale);
    if (!isfinite(value) || scale.name[0] == '\0') return;
    bn_buf_printf(out, "%s%s", scale.name[0] == '/' ? "" : " ", scale.name);
}

void bn_units_percent(struct bn_buf *out, double share, bool sign)
{
    double percent = 100 * share, size = fabs(percent);
    if (!isfinite(share))
        bn_buf_puts(out, "-");
    else if (size >= 1e6)
        bn_buf_printf(out, sign ? "%+.3e %%" : "%.3e %%", percent);
    else
        bn_buf_printf(out, sign ? "%+.*f %%" : "%.*f %%", size < 10 ? 2 : size < 1000 ? 1 : 0, percent);
}

void bn_units_count(struct bn_buf *out, uint64_t n, const char *noun)
{
    bn_buf_printf(out, "%llu %s%s", (unsigned long long)n, noun, n == 1 ? "" : "s");
}

/* The text of a buffer of BN_UNITS_ROOM bytes at most, or "-" without memory. */
static const char *keep(char out[BN_UNITS_ROOM], struct bn_buf *text)
{
    bool whole = !text->failed && text->data != NULL && text->len < BN_UNITS_ROOM;
    memcpy(out, whole ? text->data : "-", whole ? text->len + 1 : 2);
    bn_buf_release(text);
    return out;
}

const char *bn_units_text(char out[BN_UNITS_ROOM], double value, const char *unit)
{
    struct bn_buf text = {.max = BN_UNITS_ROOM};
    bn_units_value(&text, value, unit);
    return keep(out, &text);
}

const char *bn_units_percent_text(char out[BN_UNITS_ROOM], double share, bool sign)
{
    struct bn_buf text = {.max = BN_UNITS_ROOM};
    bn_units_percent(&text, share, sign);
    return keep(out, &text);
}
