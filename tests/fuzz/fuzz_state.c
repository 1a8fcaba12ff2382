/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a prompt cache of a small model, as they are and with the magic, the model's checksum and the checksum
 * made right: what is refused leaves the timeline, what is accepted is evaluated further and saved again.
 */
#include "tests/fuzz/fuzz.h"

#include "base/mem.h"
#include "infer/session.h"

#define MODEL "fixtures/nano-bitnet-b1.58-i2_s-42.gguf"
#define N_IDS 24u

static bn_session *session; /* opened once; its timeline is emptied before each input */

static void prepare(void)
{
    static bn_model *model;
    const bn_session_options options = {.n_ctx = N_IDS, .n_batch = 8, .n_threads = 1};
    if (session == NULL) {
        hold(bn_model_open(&model, MODEL, NULL, NULL) == BN_OK);
        hold(bn_session_open(&session, model, &options, NULL) == BN_OK);
    }
    hold(bn_session_truncate(session, 0, NULL) == BN_OK);
}

static void load(const unsigned char *bytes, size_t size)
{
    int32_t ids[N_IDS];
    uint32_t n_kept = 1;
    prepare();
    /* The tokens of the input where they are tokens, so that more than the first is common. */
    for (size_t i = 0; i < N_IDS; i++) {
        size_t at = sizeof(struct bn_state_header) + i * sizeof *ids;
        if (at + sizeof *ids <= size) memcpy(&ids[i], bytes + at, sizeof *ids);
        if (at + sizeof *ids > size || ids[i] < 0 || (uint32_t)ids[i] >= session->model->hp.n_vocab)
            ids[i] = 7;
    }
    bool read = succeeds(bn_state_read(session, bytes, size, "input", ids, N_IDS - 1, &n_kept, &err));
    hold(read || n_kept == 0);
    hold(bn_session_position(session) == n_kept && n_kept < N_IDS);
    if (read && !succeeds(bn_session_eval(session, ids + n_kept, N_IDS - n_kept, BN_LOGITS_NONE, NULL, &err)))
        hold(err.code == BN_ERR_FORMAT); /* FORMAT: values that are not finite */
}

/* The same with everything right that a writer can compute. */
static void read_sealed(const unsigned char *bytes, size_t size)
{
    const char *model;
    char hex[BN_CHECKSUM_HEX];
    struct bn_checksum *sum = NULL;
    if (size < sizeof(struct bn_state_header) + BN_STATE_SUM_BYTES) return;
    unsigned char *copy = bn_alloc(size, 1);
    hold(copy != NULL && bn_checksum_open(&sum, NULL) == BN_OK);
    memcpy(copy, bytes, size);
    hold(bn_state_model_sum(session, &model, NULL) == BN_OK);
    memcpy(copy, BN_STATE_MAGIC, strlen(BN_STATE_MAGIC));
    memcpy(copy + offsetof(struct bn_state_header, model), model, BN_CHECKSUM_HEX - 1);
    bn_checksum_update(sum, copy, size - BN_STATE_SUM_BYTES);
    bn_checksum_take(sum, hex);
    memcpy(copy + size - BN_STATE_SUM_BYTES, hex, BN_STATE_SUM_BYTES);
    load(copy, size);
    bn_checksum_close(sum);
    bn_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load(data, size);
    read_sealed(data, size);
    return 0;
}
