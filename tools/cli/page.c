/* SPDX-License-Identifier: MIT
 *
 * See page.h.
 */
#include "tools/cli/page.h"

#include "base/digest.h"

/* Carried by the program: tools/cli/page.css. */
extern const char bn_page_style[];
extern const uint64_t bn_page_style_bytes;

/* Without memory for a digest the policy allows no script, and the page is readable without. */
static void allow_script(struct bn_buf *out, const char *script)
{
    struct bn_sha256 *sha = NULL;
    unsigned char digest[BN_SHA256_BYTES];
    if (script[0] == '\0' || bn_sha256_open(&sha, NULL) != BN_OK) return;
    bn_sha256_update(sha, script, strlen(script));
    bn_sha256_take(sha, digest);
    bn_sha256_close(sha);
    bn_buf_puts(out, "; script-src 'sha256-");
    bn_base64_encode(out, digest, sizeof digest);
    bn_buf_puts(out, "'");
}

void bn_page_begin(struct bn_buf *out, const char *title, const char *style, size_t style_bytes,
                   const char *script)
{
    bn_html(out,
            "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head>\n"
            "<meta charset=\"utf-8\"/>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
            "'none'; style-src 'unsafe-inline'");
    allow_script(out, script);
    bn_html(out,
            "\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta "
            "name=\"color-scheme\" content=\"light dark\"/>\n<title>%s</title>\n<style>\n",
            title);
    bn_buf_append(out, bn_page_style, (size_t)bn_page_style_bytes);
    bn_buf_append(out, style, style_bytes);
    bn_html(out, "</style>");
    if (script[0] != '\0') {
        /* At the end of the head: a script that is deferred would need a file. */
        bn_buf_puts(out, "<script>");
        bn_buf_puts(out, script);
        bn_buf_puts(out, "</script>");
    }
    bn_html(out, "</head>\n<body><div class=\"page\" role=\"main\">\n");
}

void bn_page_end(struct bn_buf *out)
{
    bn_html(out, "</div></body></html>\n");
}
