/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the body of a request to generate or to embed: what is refused has an error of OpenAI's form, what is accepted is
 * within the limits.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/serve/serve.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define N_CTX 32u

static struct bn_server *open_server(void)
{
    static struct bn_serve_options options = {.max_tokens = 20, .pooling = BN_POOLING_MEAN};
    static struct bn_server server = {.o = &options, .tmpl = BN_TEMPLATE_INSTRUCT};
    const struct bn_session_options with = {.n_ctx = N_CTX, .n_batch = 8, .n_threads = 1};
    if (server.session == NULL) {
        hold(bn_model_open(&server.model, MODEL, NULL, NULL) == BN_OK);
        hold(bn_session_open(&server.session, server.model, &with, NULL) == BN_OK);
        server.tok = bn_model_tokenizer(server.model);
    }
    return &server;
}

static void check_job(const struct bn_job *job, size_t n_vocab)
{
    hold(job->n_choices >= 1 && job->n_choices <= BN_SERVE_MAX_CHOICES && job->n_prompts >= 1);
    for (size_t i = 0; i < job->n_choices; i++) {
        const bn_generation *gen = &job->choices[i].gen;
        hold(gen->n_prompt >= 1 && gen->n_prompt < N_CTX && gen->n_predict >= 1 && gen->n_predict <= 20);
        hold(gen->n_top <= BN_SERVE_MAX_TOP && gen->n_stops <= BN_SERVE_MAX_STOPS + 8);
        hold(gen->sampling.temperature >= 0.0f && job->choices[i].receipt[0] != '\0');
        for (size_t k = 0; k < gen->n_prompt; k++)
            hold(gen->prompt[k] >= 0 && (size_t)gen->prompt[k] < n_vocab);
        for (size_t k = 0; k < gen->n_stops; k++)
            hold(gen->stops[k][0] != '\0');
    }
}

static void check_refusal(const struct bn_reply *reply)
{
    bn_json *document = NULL;
    hold(reply->status == 400);
    hold(bn_json_parse(&document, bn_buf_text(&reply->body), reply->body.len, NULL) == BN_OK);
    hold(bn_json_text_of(document, "error.message")[0] != '\0');
    bn_json_free(document);
}

static void parse_as_embeddings(struct bn_server *server, const char *data, size_t size)
{
    struct bn_reply reply = {0};
    struct bn_job *job = NULL;
    if (bn_embed_parse(&job, server, data, size, &reply)) {
        hold(job->n_choices == 1 && job->choices[0].gen.n_prompt >= 1);
        bn_job_release(job);
    } else {
        check_refusal(&reply);
    }
    bn_buf_release(&reply.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bn_server *server = open_server();
    for (int chat = 0; chat < 2; chat++) {
        struct bn_reply reply = {0};
        struct bn_job *job = NULL;
        if (bn_job_parse(&job, server, (const char *)data, size, chat == 1, &reply)) {
            check_job(job, bn_tokenizer_n_vocab(server->tok));
            bn_job_release(job);
        } else {
            check_refusal(&reply);
        }
        bn_buf_release(&reply.body);
    }
    parse_as_embeddings(server, (const char *)data, size);
    return 0;
}
