/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the body of a request to generate, in every protocol, or to embed: what is refused has an error in the form of
 * the protocol, what is accepted is within the limits.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/serve/job.h"

#define MODEL "fixtures/shakespeare-5m-i2_s.gguf"
#define N_CTX 32u

static struct bn_server *open_server(void)
{
    static struct bn_serve_options options = {.max_tokens = 20, .pooling = BN_POOLING_MEAN};
    static struct bn_engine engine = {.tmpl = BN_TEMPLATE_INSTRUCT};
    static struct bn_server server = {.o = &options, .engines = &engine, .n_engines = 1};
    const struct bn_session_options with = {.n_ctx = N_CTX, .n_batch = 8, .n_threads = 1};
    if (engine.session == NULL) {
        pthread_mutex_init(&server.lock, NULL);
        engine.server = &server;
        hold(bn_model_open(&engine.model, MODEL, NULL, NULL) == BN_OK);
        hold(bn_session_open(&engine.session, engine.model, &with, NULL) == BN_OK);
        engine.tok = bn_model_tokenizer(engine.model);
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
    bool loads = reply->status == 200; /* Ollama's clients open a model by a request without a prompt */
    hold(loads || reply->status == 400 || reply->status == 404);
    hold(bn_json_parse(&document, bn_buf_text(&reply->body), reply->body.len, NULL) == BN_OK);
    hold(loads ? bn_json_text_is(document, "done_reason", "load")
               : bn_json_text_of(document, "error.message")[0] != '\0' ||
                     bn_json_text_of(document, "error")[0] != '\0');
    bn_json_free(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bn_protocol *const PROTOCOLS[] = {
        &bn_openai_chat,       &bn_openai_text,  &bn_openai_responses,
        &bn_anthropic,         &bn_ollama_chat,  &bn_ollama_generate,
        &bn_openai_embeddings, &bn_ollama_embed, &bn_ollama_embedding};
    const struct bn_request request = {.body = (const char *)data, .n_bytes = size};
    struct bn_server *server = open_server();
    for (size_t i = 0; i < BN_ARRAY_LEN(PROTOCOLS); i++) {
        struct bn_reply reply = {.protocol = PROTOCOLS[i]};
        struct bn_job *job = NULL;
        bool embeds = PROTOCOLS[i]->embedded != NULL;
        if (bn_job_parse(&job, server, PROTOCOLS[i], &request, &reply)) {
            hold(!embeds || (job->n_choices == 1 && job->choices[0].gen.n_prompt >= 1));
            if (!embeds) check_job(job, bn_tokenizer_n_vocab(server->engines->tok));
            bn_job_drop(job);
        } else {
            check_refusal(&reply);
        }
        bn_buf_release(&reply.body);
    }
    return 0;
}
