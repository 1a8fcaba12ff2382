/* SPDX-License-Identifier: MIT
 *
 * HTML, SVG and XML: markup with escaped texts. Texts of documents are hostile: names of files and models,
 * output of other programs.
 */
#include "lab/report/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

/* ---- text ---- */

/* Where a text goes. */
enum place { MARKUP, JSON };

/* What is written for a character there; NULL: the character itself. */
static const char *entity_of(char c, enum place place)
{
    switch (c) {
    case '&':
        return place == JSON ? "\\u0026" : "&amp;";
    case '<':
        return place == JSON ? "\\u003c" : "&lt;";
    case '>':
        return place == JSON ? "\\u003e" : "&gt;";
    case '"':
        return place == JSON ? "\\\"" : "&quot;";
    case '\'':
        return place == JSON ? NULL : "&#39;";
    case '\\':
        return place == JSON ? "\\\\" : NULL;
    case '\n':
    case '\t':
        return " ";
    default:
        return NULL;
    }
}

static void put_text(struct bn_buf *out, const char *text, enum place place)
{
    if (text == NULL) { /* of a buffer that had no memory */
        out->failed = true;
        return;
    }
    const char *backslash = place == JSON ? "\\\\" : "\\";
    for (const char *c = text; *c != '\0';) {
        size_t n = bn_utf8_length(c, strlen(c));
        uint32_t point = n > 0 ? bn_utf8_point(c, n) : (unsigned char)*c;
        const char *entity = entity_of(*c, place);
        if (entity != NULL)
            bn_buf_puts(out, entity);
        else if (n == 0)
            bn_buf_printf(out, "%sx%02x", backslash, (unsigned)point);
        else if (bn_utf8_is_unsafe(point))
            bn_buf_printf(out, "%su{%x}", backslash, (unsigned)point);
        else
            bn_buf_append(out, c, n);
        c += n > 0 ? n : 1;
    }
}

void bn_html_json(struct bn_buf *out, const char *text)
{
    bn_buf_putc(out, '"');
    put_text(out, text, JSON);
    bn_buf_putc(out, '"');
}

/* 1.2e-07 as 1.2e-7. The minus sign is ASCII, since people copy such numbers into programs. */
static void put_short(struct bn_buf *out, double value, int digits)
{
    char text[100];
    if (!isfinite(value)) {
        bn_buf_puts(out, "\xE2\x80\x93");
        return;
    }
    snprintf(text, sizeof text, "%.*g", digits, value);
    for (const char *c = text; *c != '\0'; c++) {
        bool leading = *c == '0' && c > text + 1 && (c[-1] == '-' || c[-1] == '+') && c[-2] == 'e';
        if (!leading && !(*c == '+' && c > text && c[-1] == 'e')) bn_buf_putc(out, *c);
    }
}

void bn_html(struct bn_buf *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    for (const char *c = fmt; *c != '\0';) {
        size_t n = strcspn(c, "%");
        bn_buf_append(out, c, n);
        c += n;
        if (*c == '\0') break;
        c++;
        int digits = 4;
        if (c[0] == '.' && c[2] == 'g') {
            digits = c[1] - '0';
            c += 2;
        }
        if (*c == 's')
            put_text(out, va_arg(args, const char *), MARKUP);
        else if (*c == 'g')
            put_short(out, va_arg(args, double), digits);
        else if (*c == 'u')
            bn_buf_printf(out, "%u", va_arg(args, unsigned));
        else if (strncmp(c, "zu", 2) == 0)
            bn_buf_printf(out, "%zu", va_arg(args, size_t));
        else if (strncmp(c, ".1f", 3) == 0)
            bn_buf_printf(out, "%.1f", va_arg(args, double));
        else
            bn_buf_putc(out, '%');
        c += *c == 'z' ? 2 : *c == '.' ? 3 : 1;
    }
    va_end(args);
}
