/* SPDX-License-Identifier: MIT
 *
 * Markup with escaped texts, which may be hostile: names of files and models, output of other programs. And an
 * HTML page: its head with the policy, and the parts that all pages have.
 */
#include "lab/report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/digest.h"
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

/* ---- pages ---- */

/* lab/report/page.css and page.js */
extern const char bn_page_style[], bn_page_script[];
extern const uint64_t bn_page_style_bytes, bn_page_script_bytes;

static void allow_script(struct bn_buf *out)
{
    struct bn_sha256 sha;
    unsigned char digest[BN_SHA256_BYTES];
    bn_sha256_begin(&sha);
    bn_sha256_update(&sha, bn_page_script, (size_t)bn_page_script_bytes);
    bn_sha256_take(&sha, digest);
    bn_buf_puts(out, "; script-src 'sha256-");
    bn_base64_encode(out, digest, sizeof digest);
    bn_buf_puts(out, "'");
}

void bn_page_begin(struct bn_buf *out, const char *title, bool sortable)
{
    bn_html(out,
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head>\n"
            "<meta charset=\"utf-8\"/>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
            "'none'; style-src 'unsafe-inline'");
    if (sortable) allow_script(out);
    bn_html(out,
            "\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta "
            "name=\"color-scheme\" content=\"light dark\"/>\n<title>%s</title>\n<style>\n",
            title);
    bn_buf_append(out, bn_page_style, (size_t)bn_page_style_bytes);
    bn_buf_puts(out, "</style>");
    if (sortable) {
        bn_buf_puts(out, "<script>");
        bn_buf_append(out, bn_page_script, (size_t)bn_page_script_bytes);
        bn_buf_puts(out, "</script>");
    }
    bn_buf_puts(out, "</head>\n<body><div class=\"page\" role=\"main\">\n");
}

void bn_page_end(struct bn_buf *out)
{
    bn_buf_puts(out, "</div></body></html>\n");
}

void bn_page_verdict(struct bn_buf *out, const char *kind, const char *kicker, const char *sentence)
{
    bn_html(out, "<div class=\"verdict %s\"><p class=\"kicker\">%s</p>\n<h1>%s</h1>\n", kind, kicker,
            sentence);
}

void bn_page_mark(struct bn_buf *out, const char *kind)
{
    static const char *const MARKS[][2] = {
        {"ok", "\xE2\x9C\x93"}, {"bad", "\xE2\x9C\x95"}, {"warn", "!"}, {"skip", "\xE2\x80\x93"}};
    size_t i = BN_FIND(MARKS, kind);
    if (i < BN_ARRAY_LEN(MARKS)) bn_html(out, "<span class=\"mark %s\">%s</span> ", kind, MARKS[i][1]);
}

void bn_page_details(struct bn_buf *out, const char *summary, const char *note)
{
    bn_html(out, "<details><summary><b>%s</b> %s</summary>\n", summary, note);
}

void bn_page_fact(struct bn_buf *out, const char *name, const char *text)
{
    bn_html(out, "<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", name,
            text[0] != '\0' ? text : "not known");
}

void bn_page_words(struct bn_buf *out, const char *const (*words)[2], size_t n)
{
    bn_buf_puts(out, "<h2 id=\"words\">Words</h2>\n<dl>\n");
    for (size_t i = 0; i < n; i++)
        bn_html(out, "<dt>%s</dt><dd>%s</dd>\n", words[i][0], words[i][1]);
    bn_buf_puts(out, "</dl>\n");
}
