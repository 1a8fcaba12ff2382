/* SPDX-License-Identifier: MIT
 *
 * Puts the pages together from their parts (page_parts.S), and computes their policies. Nothing of a request or of the
 * model is in a page, so a policy never changes while the server runs.
 */
#include <stdio.h>

#include "base/digest.h"
#include "tools/serve/serve.h"

#define MAX_PAGE_BYTES (1u << 20)
#define MAX_PARTS 6u
#define DIGEST_TEXT_BYTES 64u

extern const char bn_page_base_css[], bn_page_chat_css[], bn_page_dashboard_css[];
extern const char bn_page_base_js[], bn_page_markdown_js[], bn_page_answer_js[], bn_page_chat_js[];
extern const char bn_page_plot_js[], bn_page_dashboard_js[];
extern const char bn_page_chat_html[], bn_page_dashboard_html[];

/* Each list ends with NULL. */
static const struct parts {
    const char *title, *body;
    const char *styles[MAX_PARTS], *scripts[MAX_PARTS];
} PAGES[BN_SERVE_PAGES] = {
    [BN_SERVE_CHAT] = {"Chat - bn-serve",
                       bn_page_chat_html,
                       {bn_page_base_css, bn_page_chat_css},
                       {bn_page_base_js, bn_page_markdown_js, bn_page_answer_js, bn_page_chat_js}},
    [BN_SERVE_DASHBOARD] = {"Dashboard - bn-serve",
                            bn_page_dashboard_html,
                            {bn_page_base_css, bn_page_dashboard_css},
                            {bn_page_base_js, bn_page_plot_js, bn_page_dashboard_js}},
};

/* An icon of its own: a browser asks for /favicon.ico otherwise. */
static const char HEAD[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1, interactive-widget=resizes-content\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
    "<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='4' fill='%230f6aa8'/%3E%3Cpath d='M4 8h2M7 8h2M10 8h2' stroke='%23fff' "
    "stroke-width='2'/%3E%3C/svg%3E\">\n";

/* Appends an element and takes the digest of its text as a policy has it. */
static bn_status put_element(struct bn_buf *html, const char *name, const char *const *parts,
                             struct bn_buf *digest, bn_error *err)
{
    struct bn_sha256 sha;
    unsigned char bytes[BN_SHA256_BYTES];
    bn_sha256_begin(&sha);
    bn_buf_printf(html, "<%s>", name);
    for (; *parts != NULL; parts++) {
        bn_sha256_update(&sha, *parts, strlen(*parts));
        bn_buf_puts(html, *parts);
    }
    bn_buf_printf(html, "</%s>\n", name);
    bn_sha256_take(&sha, bytes);
    bn_buf_puts(digest, "'sha256-");
    bn_base64_encode(digest, bytes, sizeof bytes);
    bn_buf_puts(digest, "'");
    return bn_buf_check(digest, err);
}

bn_status bn_serve_page_build(struct bn_serve_page *page, enum bn_serve_page_name name, bn_error *err)
{
    const struct parts *parts = &PAGES[name];
    struct bn_buf style = {.max = DIGEST_TEXT_BYTES}, script = {.max = DIGEST_TEXT_BYTES};
    page->html = (struct bn_buf){.max = MAX_PAGE_BYTES};
    bn_buf_puts(&page->html, HEAD);
    bn_buf_printf(&page->html, "<title>%s</title>\n", parts->title);
    bn_status status = put_element(&page->html, "style", parts->styles, &style, err);
    if (status == BN_OK) status = put_element(&page->html, "script", parts->scripts, &script, err);
    bn_buf_printf(&page->html, "</head>\n<body>\n%s</body>\n</html>\n", parts->body);
    if (status == BN_OK) status = bn_buf_check(&page->html, err);
    snprintf(
        page->policy, sizeof page->policy,
        "default-src 'none'; script-src %s; style-src %s; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        bn_buf_text(&script), bn_buf_text(&style));
    bn_buf_release(&style);
    bn_buf_release(&script);
    return status;
}
