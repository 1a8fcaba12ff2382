/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the head of a request: the first line is method, target and version, the others are headers. What is refused
 * has an error of OpenAI's form; what is accepted has one known Host, a permitted origin, a key, and a length of its body
 * that is clear.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/serve/serve.h"

/* The next word, up to a separator; *at moves on. */
static char *next(char **at, const char *separators)
{
    char *word = *at;
    *at += strcspn(*at, separators);
    if (**at != '\0') *(*at)++ = '\0';
    return word;
}

static void check_accepted(const struct bn_head *head, const struct bn_server *s)
{
    hold(head->host != NULL && head->host[0] != '\0' && head->twice == NULL && !head->bad_name);
    hold(strncmp(head->host, "evil", 4) != 0);
    hold(head->origin == NULL || head->permitted != NULL || strstr(head->origin, head->host) != NULL);
    hold(head->coding == NULL || head->length == NULL);
    hold(head->n_body <= s->o->max_body_bytes);
    hold(!head->bad_target && head->n_target > 0);
}

static void check_refused(const struct bn_reply *reply)
{
    bn_json *document = NULL;
    hold(reply->status >= 400 && reply->status < 600);
    hold(bn_json_parse(&document, bn_buf_text(&reply->body), reply->body.len, NULL) == BN_OK);
    hold(bn_json_text_of(document, "error.message")[0] != '\0');
    bn_json_free(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *origins[] = {"http://a.example", NULL};
    static char keys[1][BN_SHA256_HEX];
    struct bn_serve_options options = {.max_body_bytes = 1000, .cors = {origins, 1}};
    struct bn_server server = {.o = &options};
    struct bn_head head = {0};
    struct bn_reply reply = {0};
    char *text = bn_strndup((const char *)data, size), *at = text;
    if (text == NULL) return 0;
    if (size > 0 && data[0] == 'K') { /* with keys */
        server.keys = keys;
        server.n_keys = 1;
        at++;
    }
    const char *method = next(&at, " \n"), *target = next(&at, " \n"), *version = next(&at, "\n");
    bn_head_target(&head, target);
    head.is_old = strcmp(version, "HTTP/1.0") == 0;
    head.n_bytes = size;
    while (*at != '\0') {
        char *line = next(&at, "\n");
        const char *name = next(&line, ":");
        bn_head_take(&head, name, line + strspn(line, " "));
    }
    bn_head_check(&server, &head, method, target, &reply);
    if (reply.status == 0)
        check_accepted(&head, &server);
    else if (!head.is_preflight || reply.status != 204)
        check_refused(&reply);
    (void)bn_head_is_origin(target);
    bn_buf_release(&reply.body);
    bn_free(text);
    return 0;
}
