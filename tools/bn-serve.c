/* SPDX-License-Identifier: MIT
 *
 * bn-serve: answers requests in the form of several APIs, several at a time, each with a receipt. This file has the
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
#include "lab/host/git.h"
#include "tools/cli/default_model.h"
#include "tools/cli/program/sandbox.h"
#include "tools/cli/programs.h"
#include "tools/cli/report.h"
#include "tools/cli/text.h"
#include "tools/serve/job.h"

#define OF struct bn_serve_options /* whose fields the options set */

static const struct bn_option OPTIONS[] = {
    BN_OPTION("model", "GGUF file, downloaded model, or folder of files [the built-in model]", .letter = 'm',
              .arg = "MODEL", .group = "Model", .env = "BN_MODEL", .repeatable = true,
              BN_TO_TEXTS(OF, models), .path = BN_PATH_MODEL),
    BN_OPTION("max-models", "models that are open at a time, of several [as many as fit]",
              BN_TO_U32(OF, n_models, 1, BN_SERVE_MAX_MODELS)),
    BN_OPTION("keep-alive", "how long one of several stays open without use; or forever", .arg = "TIME",
              .preset = "5m", BN_TO_TEXT(OF, keep_alive)),
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
    BN_OPTION("api-key-file", "accept only requests with a key from FILE", BN_TO_PATH(OF, key_file, READ)),
    BN_OPTION("dashboard", "list the reports in DIR on /dashboard", .arg = "DIR", .group = "Evidence",
              BN_TO_PATH(OF, dashboard, READ)),
    BN_OPTION("log", "print a line for each request to standard error", BN_TO_BOOL(OF, log)),
    BN_OPTION("receipts", "write receipts to DIR [kept in memory]", .arg = "DIR",
              BN_TO_PATH(OF, receipts, BOTH)),
    BN_OPTION("sign", "sign receipts with an Ed25519 private key (PEM)", BN_TO_PATH(OF, sign, READ)),
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
    uint64_t keep_ns;
    if (!bn_models_time(o->keep_alive, &keep_ns))
        return bn_fail(err, BN_ERR_ARG,
                       "--keep-alive: '%.40s' is not a time such as 90s, 5m or 1h, nor forever",
                       o->keep_alive);
    if (o->timeout_s == 0 || o->timeout_s > 86400)
        return bn_fail(err, BN_ERR_ARG, "--timeout is not from 1s to 1d");
    return BN_OK;
}

/* The address alone goes to standard output, last: a script that reads it can connect. */
static void greet(const struct bn_server *s)
{
    char url[128];
    bool v6 = strchr(s->o->host, ':') != NULL;
    snprintf(url, sizeof url, "http://%s%s%s:%u", v6 ? "[" : "", s->o->host, v6 ? "]" : "",
             bn_listener_port(s->http));
    const struct bn_engine *e = &s->engines[0];
    const bn_device_info *device = bn_model_device(e->model);
    bn_report_note(0, "model %s, %.1f MiB%s%s, template %s, %u sequences of %u tokens", e->id,
                   (double)e->n_bytes / 0x1p20, device != NULL ? ", " : "", device != NULL ? device->id : "",
                   bn_template_name(e->tmpl), e->n_lanes, e->n_ctx);
    for (size_t i = 1; i < s->n_engines; i++)
        bn_report_note(0, "model %s, %.1f MiB, opened on its first use", s->engines[i].id,
                       (double)s->engines[i].n_bytes / 0x1p20);
    if (bn_template_resolve(BN_TEMPLATE_AUTO, e->tok) == BN_TEMPLATE_RAW &&
        bn_model_hparams(e->model)->pooling == BN_POOLING_FILE)
        bn_report_warning("this is a base model: it continues text and does not answer questions%s",
                          e->base ? "; chats use --template instruct" : "");
    bn_report_note(0, "chat       %s/", url);
    bn_report_note(0, "dashboard  %s/dashboard", url);
    bn_report_note(0, "API        %s/v1 for OpenAI's clients, %s for Anthropic's and Ollama's", url, url);
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
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0) return bn_fail(err, BN_ERR_IO, "no event descriptor");
    snprintf(s->fingerprint, sizeof s->fingerprint, "bn-%s", bn_version());
    for (unsigned i = 0; i < BN_SERVE_PAGES; i++)
        BN_TRY(bn_serve_page_build(&s->pages[i], (enum bn_serve_page_name)i, err));
    BN_TRY(bn_models_open(s, err));
    s->n_clients = (size_t)o->max_queue + (size_t)o->n_sequences * s->n_engines + 1;
    BN_TRY(BN_NEW(s->clients, s->n_clients, err));
    bn_cli_catch_interrupt();
    BN_TRY(bn_models_start(s, err));
    BN_TRY(bn_listener_start(s, err));
    BN_TRY(bn_sandbox_close_sockets(err));
    greet(s);
    return BN_OK;
}

/* Nothing that a server does needs root's rights. */
static void warn_root(void)
{
    if (geteuid() == 0) bn_report_warning("bn-serve runs as root; another user is enough");
}

/* Of several models, one whose file was replaced is opened again. */
static void allow(struct bn_sandbox_rules *rules, const struct bn_args *args)
{
    const struct bn_serve_options *o = args->fields;
    char live[BN_LIVE_PATH];
    for (size_t i = 0; i < o->models.n && o->models.n > 1; i++)
        bn_sandbox_allow(rules, BN_PATH_BESIDE, o->models.list[i]);
    if (o->live.on && bn_live_path(live, "", true, NULL) == BN_OK)
        bn_sandbox_allow(rules, BN_PATH_BOTH, live);
    bn_git_keep();
}

static const struct bn_sandbox SANDBOX = {BN_SANDBOX, .listens = true, .secrets = true, .more = allow};

static bn_status serve(struct bn_args *args, bn_error *err)
{
    struct bn_server *s = bn_alloc(1, sizeof *s);
    if (s == NULL) return bn_nomem(err);
    *s = (struct bn_server){
        .args = args, .o = args->fields, .wake = -1, .created_s = (uint64_t)bn_clock_utc()};
    s->opened_ns = bn_clock_ns();
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->models, &attr);
    pthread_condattr_destroy(&attr);
    bn_status status = check(s->o, err);
    warn_root();
    if (status == BN_OK) status = start(s, err);
    if (status == BN_OK) bn_engine_run(s);
    bn_listener_stop(s->http);
    bn_receipts_close(s);
    bn_conversations_close(s);
    if (!bn_models_close(s)) _exit(bn_report_finish(args->exit_code)); /* nothing else is left to do */
    for (unsigned i = 0; i < BN_SERVE_PAGES; i++)
        bn_buf_release(&s->pages[i].html);
    bn_benchmarks_close(&s->benchmarks);
    bn_free(s->clients);
    bn_free(s->keys);
    bn_key_close(s->sign_key);
    if (s->wake >= 0) close(s->wake);
    pthread_cond_destroy(&s->models);
    pthread_mutex_destroy(&s->lock);
    bn_free(s);
    return status;
}

static const struct bn_command COMMANDS[] = {
    {.name = "",
     .summary = BN_SUMMARY_SERVE,
     .text =
         "Answers requests in the form of the APIs of OpenAI (/v1/chat/completions, /v1/responses, "
         "/v1/completions, /v1/embeddings), Anthropic (/v1/messages) and Ollama (/api/chat), and has "
         "/v1/receipts/ID, /v1/status, /health and /metrics. A browser gets a "
         "chat at / and live figures at /dashboard. Answers are generated several at a time. Each is the "
         "one that its request gets alone, and has a receipt, named by the header X-BN-Receipt, which "
         "bn-verify-receipt --replay proves.\n\nThe address is printed when the model is open. SIGINT and "
         "SIGTERM end the server: answers that run are finished, new requests are refused. TLS is the "
         "work of a proxy.",
     .synopsis = "[-m MODEL]... [--port N] [--api-key-file FILE]",
     .options = {OPTIONS},
     BN_SANDBOXED(SANDBOX, serve),
     .examples = {{"bn-serve", "the built-in model on http://127.0.0.1:8080"},
                  {"bn-serve -m model.gguf --receipts receipts", "write receipts to files"},
                  {"bn-serve -m a.gguf -m b.gguf", "requests choose one of several models"},
                  {"bn-serve --dashboard baselines", "list saved benchmarks on /dashboard"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-serve",
    .summary = BN_SUMMARY_SERVE,
    .text = "Serves models by the APIs of OpenAI, Anthropic and Ollama.",
    .commands = COMMANDS,
    .bytes = sizeof(OF),
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
