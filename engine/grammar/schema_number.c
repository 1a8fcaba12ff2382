/* SPDX-License-Identifier: MIT
 *
 * Ranges of numbers as digits. Whole numbers are below 10^15, fractions have at most 15 digits. A number that need not be
 * whole has bounds that are whole.
 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "grammar/schema.h"

#define DIGITS 15
#define MOST 999999999999999LL

/* ---- digits ---- */

static void put_digit(struct bn_buf *e, int from, int to)
{
    if (from == to)
        bn_buf_printf(e, "\"%d\" ", from);
    else
        bn_buf_printf(e, "[%d-%d] ", from, to);
}

static void put_any_digits(struct bn_buf *e, size_t n)
{
    if (n > 0) bn_buf_printf(e, "[0-9]{%zu} ", n);
}

static bool all_are(const char *digits, size_t n, char digit)
{
    for (size_t i = 0; i < n; i++)
        if (digits[i] != digit) return false;
    return true;
}

/* Digits of the same length from lo to hi; at most 15 deep. */
static void put_between(struct bn_buf *e, const char *lo, const char *hi, size_t n)
{
    if (n == 0) return;
    if (all_are(lo, n, '0') && all_are(hi, n, '9')) {
        put_any_digits(e, n);
        return;
    }
    if (lo[0] == hi[0] || n == 1) {
        put_digit(e, lo[0] - '0', hi[0] - '0');
        put_between(e, lo + 1, hi + 1, n - 1);
        return;
    }
    char zeros[DIGITS + 1], nines[DIGITS + 1];
    memset(zeros, '0', n);
    memset(nines, '9', n);
    int from = lo[0] - '0', to = hi[0] - '0';
    bool low = !all_are(lo + 1, n - 1, '0'), high = !all_are(hi + 1, n - 1, '9'), first = true;
    bn_buf_puts(e, "(");
    if (low) {
        put_digit(e, from, from);
        put_between(e, lo + 1, nines, n - 1);
        first = false;
    }
    if (from + low <= to - high) {
        if (!first) bn_buf_puts(e, "| ");
        put_digit(e, from + low, to - high);
        put_any_digits(e, n - 1);
        first = false;
    }
    if (high) {
        if (!first) bn_buf_puts(e, "| ");
        put_digit(e, to, to);
        put_between(e, zeros, hi + 1, n - 1);
    }
    bn_buf_puts(e, ") ");
}

/* Whole numbers from lo to hi, 0 <= lo <= hi < 10^15, without leading zeros. */
static void put_range(struct bn_buf *e, long long lo, long long hi)
{
    char from[24], to[24];
    const char *before = "(";
    for (long long first = 0, last = 9; first <= hi; first = last + 1, last = last * 10 + 9) {
        if (last < lo) continue;
        int n = snprintf(from, sizeof from, "%lld", lo > first ? lo : first);
        snprintf(to, sizeof to, "%lld", hi < last ? hi : last);
        bn_buf_puts(e, before);
        put_between(e, from, to, (size_t)n);
        before = "| ";
    }
    bn_buf_puts(e, ") ");
}

/* ---- bounds ---- */

struct bounds {
    double least, most;
    bool has_least, has_most, above, below; /* above, below: the bound itself is excluded */
};

static bn_status read_bound(struct bn_schema *s, const bn_json *schema, const char *keyword, bool whole,
                            double *out, bool *has)
{
    const bn_json *value = bn_json_get(schema, keyword);
    if (value == NULL) return BN_OK;
    if (!bn_json_number(value, out)) return bn_schema_refuse(s, keyword, "is not a number");
    if (!whole && *out != floor(*out) && fabs(*out) < (double)MOST)
        return bn_schema_refuse(s, keyword,
                                "is supported for type \"number\" only when it is a whole number");
    *has = true;
    return BN_OK;
}

static bn_status read_bounds(struct bn_schema *s, const bn_json *schema, bool whole, struct bounds *b)
{
    struct bounds ex = {0};
    *b = (struct bounds){0};
    BN_TRY(read_bound(s, schema, "minimum", whole, &b->least, &b->has_least));
    BN_TRY(read_bound(s, schema, "maximum", whole, &b->most, &b->has_most));
    BN_TRY(read_bound(s, schema, "exclusiveMinimum", whole, &ex.least, &ex.has_least));
    BN_TRY(read_bound(s, schema, "exclusiveMaximum", whole, &ex.most, &ex.has_most));
    if (ex.has_least && (!b->has_least || ex.least >= b->least)) {
        b->least = ex.least;
        b->above = b->has_least = true;
    }
    if (ex.has_most && (!b->has_most || ex.most <= b->most)) {
        b->most = ex.most;
        b->below = b->has_most = true;
    }
    return BN_OK;
}

static long long clamp(double x)
{
    return x > (double)MOST ? MOST : x < -(double)MOST ? -MOST : (long long)x;
}

static bn_status none(struct bn_schema *s, const struct bounds *b)
{
    const char *least = b->above ? "exclusiveMinimum" : "minimum",
               *most = b->below ? "exclusiveMaximum" : "maximum";
    return bn_schema_refuse(s, b->has_least ? least : most, "leaves no number");
}

static bn_status put_whole(struct bn_schema *s, const struct bounds *b, struct bn_buf *e)
{
    double least = b->has_least ? b->above ? floor(b->least) + 1 : ceil(b->least) : -(double)MOST,
           most = b->has_most ? b->below ? ceil(b->most) - 1 : floor(b->most) : (double)MOST;
    if (least > (double)MOST || most < -(double)MOST) return none(s, b);
    long long lo = clamp(least), hi = clamp(most);
    if (lo > hi) return none(s, b);
    bn_buf_puts(e, "(");
    if (lo < 0) {
        bn_buf_puts(e, "\"-\" ");
        put_range(e, hi < 0 ? -hi : 1, -lo);
    }
    if (hi >= 0) {
        bn_buf_puts(e, lo < 0 ? "| " : "");
        put_range(e, lo > 0 ? lo : 0, hi);
    }
    bn_buf_puts(e, ")");
    return BN_OK;
}

/* Magnitudes from lo to hi, one or both excluded; false: there is none. */
static bool put_magnitudes(struct bn_buf *e, const char *sign, long long lo, bool above, long long hi,
                           bool below)
{
    if (lo > hi || (lo == hi && (above || below))) return false;
    const char *before = "";
    bn_buf_puts(e, sign);
    bn_buf_puts(e, "(");
    if (lo + above < hi) {
        put_range(e, lo + above, hi - 1);
        bn_buf_puts(e, "fraction? ");
        before = "| ";
    }
    if (above && lo < hi) {
        bn_buf_printf(e, "%s\"%lld.\" [0-9]{0,14} [1-9] ", before, lo);
        before = "| ";
    }
    if (!below) bn_buf_printf(e, "%s\"%lld\" ", before, hi);
    bn_buf_puts(e, ")");
    return true;
}

static bn_status put_decimal(struct bn_schema *s, const struct bounds *b, struct bn_buf *e)
{
    long long lo = b->has_least ? clamp(b->least) : -MOST, hi = b->has_most ? clamp(b->most) : MOST;
    bool below_zero = lo < 0 && hi <= 0, any = false;
    if (b->least > (double)MOST || b->most < -(double)MOST) return none(s, b);
    bn_buf_puts(e, "(");
    if (lo < 0) /* the magnitude of a negative number is not 0 */
        any = put_magnitudes(e, "\"-\" ", hi < 0 ? -hi : 0, hi >= 0 || b->below, -lo, b->above);
    if (hi > 0 || !below_zero) {
        struct bn_buf rest = {.max = BN_GRAMMAR_MAX_BYTES};
        bool positive = put_magnitudes(&rest, "", lo > 0 ? lo : 0, lo >= 0 && b->above, hi, b->below);
        if (any && positive) bn_buf_puts(e, " | ");
        bn_buf_puts(e, bn_buf_text(&rest));
        any = any || positive;
        bn_buf_release(&rest);
    } else if (hi == 0 && !b->below) {
        bn_buf_puts(e, any ? " | \"0\"" : "\"0\"");
        any = true;
    }
    bn_buf_puts(e, ")");
    return any ? BN_OK : none(s, b);
}

bn_status bn_schema_put_number(struct bn_schema *s, const bn_json *schema, bool whole, struct bn_buf *e)
{
    struct bounds b;
    BN_TRY(read_bounds(s, schema, whole, &b));
    if (!b.has_least && !b.has_most) {
        bn_buf_puts(e, whole ? "integer" : "number");
        return BN_OK;
    }
    return whole ? put_whole(s, &b, e) : put_decimal(s, &b, e);
}
