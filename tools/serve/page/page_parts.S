/* SPDX-License-Identifier: MIT
 *
 * The parts of the two pages of bn-serve; page.c puts them together.
 */
#include "base/embed.h"

EMBED(bn_page_base_css, bn_page_base_css_bytes, "tools/serve/page/base.css")
EMBED(bn_page_chat_css, bn_page_chat_css_bytes, "tools/serve/page/chat.css")
EMBED(bn_page_dashboard_css, bn_page_dashboard_css_bytes, "tools/serve/page/dashboard.css")
EMBED(bn_page_base_js, bn_page_base_js_bytes, "tools/serve/page/base.js")
EMBED(bn_page_markdown_js, bn_page_markdown_js_bytes, "tools/serve/page/markdown.js")
EMBED(bn_page_answer_js, bn_page_answer_js_bytes, "tools/serve/page/answer.js")
EMBED(bn_page_chat_js, bn_page_chat_js_bytes, "tools/serve/page/chat.js")
EMBED(bn_page_plot_js, bn_page_plot_js_bytes, "tools/serve/page/plot.js")
EMBED(bn_page_dashboard_js, bn_page_dashboard_js_bytes, "tools/serve/page/dashboard.js")
EMBED(bn_page_chat_html, bn_page_chat_html_bytes, "tools/serve/page/chat.html")
EMBED(bn_page_dashboard_html, bn_page_dashboard_html_bytes, "tools/serve/page/dashboard.html")
EMBED_END
