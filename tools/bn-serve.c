/* SPDX-License-Identifier: MIT
 *
 * bn-serve: answers requests in the form of OpenAI's API, several at a time, each with a receipt. This file has the
 * options; the parts are in serve/.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/model.h"
#include "tools/cli/default_model.h"
#include "tools/cli/programs.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/serve/serve.h"

#define OF struct bn_serve_options /* whose fields the options set */

static const struct bn_option OPTIONS[] = {
    BN_OPTION_MODEL,
    BN_OPTION("template", "chat template; auto: the model's own, else instruct",
              .arg = "auto|instruct|llama3-chat|bitnet|chatml|qwen3|qwen35|falcon3", .preset = "auto",
              BN_TO_TEXT(OF, template_name)),
    BN_RARE("think", "think before answering; auto: the template's default", .arg = "auto|on|off",
            .preset = "auto", BN_TO_CHOICE(OF, think)),
    BN_OPTION_THREADS_TO(OF, n_threads),
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    BN_RARE("device-lost", "what follows when the device is lost: status 503, or the CPU",
            .arg = "refuse|cpu", .preset = "refuse", BN_TO_CHOICE(OF, device_lost)),
    BN_OPTION_REPACK,
    BN_OPTION_MAX_MEMORY,
    BN_OPTION("ctx", "context of each sequence [the model's, up to 4096]", BN_TO_U32(OF, n_ctx, 2, 1u << 24)),
    BN_RARE("batch", "evaluate N tokens together [128]", BN_TO_U32(OF, n_batch, 1, 4096)),
    BN_RARE("snapshots", "memory for earlier recurrent states [sequences + 4 states]",
            BN_TO_BYTES(OF, snapshot_bytes)),
    BN_OPTION("sequences", "answers at a time", .preset = "8", BN_TO_U32(OF, n_sequences, 1, 256)),
    BN_RARE("pooling", "how tokens become one vector; file: as the model says",
            .arg = "file|none|mean|first|last", .preset = "file", BN_TO_CHOICE(OF, pooling)),
    BN_OPTION("host", "address to listen on", .arg = "ADDRESS", .group = "Network", .preset = "127.0.0.1",
              BN_TO_TEXT(OF, host)),
    BN_OPTION("port", "port to listen on; 0: any free one", .preset = "8080", .env = "BN_PORT",
              BN_TO_U32(OF, port, 0, 65535)),
    BN_RARE("allow-host", "another name in the Host header, e.g. of a proxy", .arg = "NAME",
            .repeatable = true, BN_TO_TEXTS(OF, allow_hosts)),
    BN_RARE("cors", "accept requests of pages from ORIGIN, e.g. http://localhost:3000", .arg = "ORIGIN",
            .repeatable = true, BN_TO_TEXTS(OF, cors)),
    BN_OPTION("api-key-file", "accept only requests with a key from FILE", BN_TO_TEXT(OF, key_file)),
    BN_OPTION("dashboard", "list the reports in DIR on /dashboard", .arg = "DIR", .group = "Evidence",
              BN_TO_TEXT(OF, dashboard)),
    BN_OPTION("log", "print a line for each request to standard error", BN_TO_BOOL(OF, log)),
    BN_OPTION("receipts", "write receipts to DIR [kept in memory]", .arg = "DIR", BN_TO_TEXT(OF, receipts)),
    BN_OPTION("sign", "sign receipts with an Ed25519 private key (PEM)", BN_TO_TEXT(OF, sign)),
    BN_RARE("max-receipts", "keep the last N receipts", .preset = "100000",
            BN_TO_U32(OF, n_receipts, 1, 1000000)),
    BN_RARE("receipts-size", "drop the oldest above N bytes [1G; in memory 64M]", .arg = "N",
            BN_TO_BYTES(OF, receipts_bytes)),
    BN_RARE("receipts-age", "drop those older than TIME, e.g. 30d [never]",
            BN_TO_SECONDS(OF, receipts_age_s)),
    BN_OPTION("max-queue", "answers that may wait; more get status 429", .group = "Limits", .preset = "64",
              BN_TO_U32(OF, max_queue, 1, 65536)),
    BN_OPTION("max-tokens", "most tokens of an answer [the context]", BN_TO_U32(OF, max_tokens, 1, 1u << 24)),
    BN_RARE("max-slowdown", "how much prompts may slow running answers; 0: no limit", .arg = "FACTOR",
            .preset = "2.5", BN_TO_F64(OF, max_slowdown, 0, 1000)),
    BN_OPTION("max-time", "longest time of an answer, the queue included [no limit]",
              BN_TO_SECONDS(OF, max_time_s)),
    BN_RARE("max-body", "largest request in bytes, e.g. 4M", .arg = "N", .preset = "1M",
            BN_TO_BYTES(OF, max_body_bytes)),
    BN_RARE("max-connections", "open connections", .preset = "256", BN_TO_U32(OF, max_connections, 1, 65536)),
    BN_RARE("max-per-address", "connections of one address [64; this machine: any]",
            BN_TO_U32(OF, max_per_address, 1, 65536)),
    BN_RARE("timeout", "time to send a request, and to begin to read its answer", .preset = "60s",
            BN_TO_SECONDS(OF, timeout_s)),
    BN_OPTIONS_LIVE(OF, live),
    BN_RARE("grace", "time for running answers to end after SIGTERM", .group = "Limits", .preset = "30s",
            BN_TO_SECONDS(OF, grace_s)),
    {0},
};

/* Beyond this machine a key is needed. */
static bn_status check(const struct bn_serve_options *o, bn_error *err)
{
    struct in_addr v4;
    struct in6_addr v6, loopback = IN6ADDR_LOOPBACK_INIT;
    bool is_v4 = inet_pton(AF_INET, o->host, &v4) == 1, is_v6 = inet_pton(AF_INET6, o->host, &v6) == 1;
    if (!is_v4 && !is_v6)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "--host: '%s' is not an IPv4 or IPv6 address", o->host), err,
                       "--host 127.0.0.1");
    bool local = is_v4 ? (ntohl(v4.s_addr) >> 24) == 127 : memcmp(&v6, &loopback, sizeof v6) == 0;
    if (!local && o->key_file == NULL)
        return bn_hint(
            bn_fail(err, BN_ERR_ARG, "--host %s lets other machines connect without a key", o->host), err,
            "--api-key-file FILE");
    for (size_t i = 0; i < o->cors.n; i++)
        if (!bn_head_is_origin(o->cors.list[i]))
            return bn_hint(
                bn_fail(err, BN_ERR_ARG, "--cors %.80s is not the origin of a page", o->cors.list[i]), err,
                "SCHEME://HOST or SCHEME://HOST:PORT in lower case, without a path");
    if (o->max_body_bytes == 0 || o->max_body_bytes > BN_JSON_MAX_BYTES)
        return bn_fail(err, BN_ERR_ARG, "--max-body is not from 1 to 8M");
    if (o->timeout_s == 0 || o->timeout_s > 86400)
        return bn_fail(err, BN_ERR_ARG, "--timeout is not from 1s to 1d");
    return BN_OK;
}

/* A model without a template gets one that any vocabulary can write. A template whose marks the vocabulary lacks is refused
 * at the start, not at the first chat. */
static bn_status choose_template(struct bn_server *s, bn_error *err)
{
    const bn_message hello = {"user", "hello"};
    int32_t *ids = NULL;
    size_t n_ids;
    (void)bn_template_from_name(s->o->template_name, &s->tmpl);
    s->tmpl = bn_template_resolve(s->tmpl, s->tok);
    s->base = s->tmpl == BN_TEMPLATE_RAW;
    if (s->base) s->tmpl = BN_TEMPLATE_INSTRUCT;
    BN_TRY(bn_cli_set_thinking(&s->tmpl, s->o->think, err));
    bn_status status = bn_template_encode(s->tmpl, s->tok, &hello, 1, &ids, &n_ids, err);
    bn_free(ids);
    return status;
}

static bn_status open_engine(struct bn_server *s, bn_error *err)
{
    bn_model_options with = {.repack = BN_REPACK_AUTO, .repack_later = true};
    uint64_t start = bn_clock_ns();
    BN_TRY(bn_cli_open_model(&s->model, s->args, &with, err));
    BN_TRY(bn_cli_tokenizer(s->model, &s->tok, err));
    BN_TRY(choose_template(s, err));
    BN_TRY(bn_engine_open(s, err));
    BN_TRY(bn_receipt_read_facts(&s->facts, s->model, NULL, err));
    s->load_ns = bn_clock_ns() - start;
    bn_cli_warn_threads(s->session, s->o->n_threads);
    return BN_OK;
}

/* The last part of the model's name. */
static void name_model(struct bn_server *s)
{
    const char *name = bn_receipt_base_name(bn_cli_model_name(s->args));
    bn_escape(s->model_id, sizeof s->model_id, name, strlen(name));
    snprintf(s->fingerprint, sizeof s->fingerprint, "bn-%s", bn_version());
}

/* The address alone goes to standard output, last: a script that reads it can connect. */
static void greet(const struct bn_server *s)
{
    char url[128];
    bool v6 = strchr(s->o->host, ':') != NULL;
    snprintf(url, sizeof url, "http://%s%s%s:%u", v6 ? "[" : "", s->o->host, v6 ? "]" : "",
             bn_listener_port(s->http));
    const bn_device_info *device = bn_model_device(s->model);
    bn_report_note(0, "model %s, %.1f MB%s%s, template %s, %zu sequences of %u tokens", s->model_id,
                   (double)s->model->n_bytes / 1e6, device != NULL ? ", " : "",
                   device != NULL ? device->id : "", bn_template_name(s->tmpl), s->lanes.n,
                   bn_session_n_ctx(s->session));
    if (bn_template_resolve(BN_TEMPLATE_AUTO, s->tok) == BN_TEMPLATE_RAW &&
        bn_model_hparams(s->model)->pooling == BN_POOLING_FILE)
        bn_report_warning("this is a base model: it continues text and does not answer questions%s",
                          s->base ? "; chats use --template instruct" : "");
    bn_report_note(0, "chat       %s/", url);
    bn_report_note(0, "dashboard  %s/dashboard", url);
    bn_report_note(0, "API        %s/v1 (the base URL of OpenAI's clients)", url);
    printf("bn-serve: %s\n", url);
    fflush(stdout);
}

static bn_status start(struct bn_server *s, bn_error *err)
{
    const struct bn_serve_options *o = s->o;
    if (o->key_file != NULL) BN_TRY(bn_keys_read(s, o->key_file, err));
    if (o->sign != NULL) BN_TRY(bn_key_read_file(&s->sign_key, o->sign, err));
    BN_TRY(bn_receipts_open(s, err));
    if (o->dashboard != NULL) BN_TRY(bn_benchmarks_open(&s->benchmarks, o->dashboard, err));
    s->n_clients = (size_t)o->max_queue + o->n_sequences + 1;
    s->clients = bn_alloc(s->n_clients, sizeof *s->clients);
    if (s->clients == NULL) return bn_nomem(err);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0) return bn_fail(err, BN_ERR_IO, "no event descriptor");
    name_model(s);
    for (unsigned i = 0; i < BN_SERVE_PAGES; i++)
        BN_TRY(bn_serve_page_build(&s->pages[i], (enum bn_serve_page_name)i, err));
    BN_TRY(open_engine(s, err));
    bn_cli_catch_interrupt();
    BN_TRY(bn_listener_start(s, err));
    greet(s);
    return BN_OK;
}

/* Nothing that a server does needs root's rights. */
static void warn_root(void)
{
    if (geteuid() == 0) bn_report_warning("bn-serve runs as root; another user is enough");
}

static bn_status serve(struct bn_args *args, bn_error *err)
{
    struct bn_server *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    *s = (struct bn_server){
        .args = args, .o = args->fields, .wake = -1, .created_s = (uint64_t)bn_clock_utc()};
    s->opened_ns = bn_clock_ns();
    pthread_mutex_init(&s->lock, NULL);
    bn_status status = check(s->o, err);
    warn_root();
    if (status == BN_OK) status = start(s, err);
    if (status == BN_OK) bn_engine_run(s);
    bn_listener_stop(s->http);
    bn_receipts_close(s);
    bn_lanes_close(&s->lanes);
    bn_sequence_close(s->embedding);
    bn_live_close(s->live);
    if (s->left != s->session) bn_session_close(s->left);
    bn_session_close(s->session);
    bn_model_close(s->model);
    for (unsigned i = 0; i < BN_SERVE_PAGES; i++)
        bn_buf_release(&s->pages[i].html);
    bn_benchmarks_close(&s->benchmarks);
    bn_free(s->clients);
    bn_free(s->keys);
    bn_key_close(s->sign_key);
    if (s->wake >= 0) close(s->wake);
    pthread_mutex_destroy(&s->lock);
    bn_free(s);
    return status;
}

static const struct bn_command COMMANDS[] = {
    {.name = "",
     .summary = BN_SUMMARY_SERVE,
     .text =
         "Answers requests in the form of OpenAI's API: /v1/chat/completions, /v1/completions, "
         "/v1/embeddings, /v1/models, and /v1/receipts/ID, /v1/status, /tokenize, /detokenize, /health, /metrics. A browser gets a "
         "chat at / and live figures at /dashboard. Answers are generated several at a time. Each is the "
         "one that its request gets alone, and has a receipt, named by the header X-BN-Receipt, which "
         "bn-verify-receipt --replay proves.\n\nThe address is printed when the model is open. SIGINT and "
         "SIGTERM end the server: answers that run are finished, new requests are refused. TLS is the "
         "work of a proxy.",
     .synopsis = "[-m MODEL] [--port N] [--api-key-file FILE]",
     .options = {OPTIONS},
     .run = serve,
     .examples = {{"bn-serve", "the built-in model on http://127.0.0.1:8080"},
                  {"bn-serve -m model.gguf --receipts receipts", "write receipts to files"},
                  {"bn-serve --dashboard baselines", "list saved benchmarks on /dashboard"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-serve",
    .summary = BN_SUMMARY_SERVE,
    .text = "Serves a model to programs that use OpenAI's API.",
    .commands = COMMANDS,
    .bytes = sizeof(OF),
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
