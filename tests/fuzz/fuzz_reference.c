/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the answers of a reference (docs/explain/crossval.md). The client ends with a status
 * and a message; once a reference is at fault, it is not believed again.
 */
#include "tests/fuzz/fuzz.h"

#include "lab/compare/reference.h"

/* What the client called a fault stays one. */
static bool went_well(bool ok, bool *at_fault)
{
    hold(!*at_fault || !ok);
    *at_fault |= err.code == BN_ERR_MISMATCH;
    return ok;
}

static void ask(struct bn_reference *ref)
{
    static const int32_t IDS[] = {1, 2, 3};
    const struct bn_reference_info *info = bn_reference_info(ref);
    struct bn_records records = {0};
    bool at_fault = false;
    int32_t *ids = NULL;
    float *logits = NULL;
    size_t n = 0;
    uint64_t prompt_ns, decode_ns;
    if (!went_well(succeeds(bn_reference_open(ref, "model.gguf", 1, &err)), &at_fault)) return;
    hold(info->n_vocab > 0);
    if (went_well(succeeds(bn_reference_tokenize(ref, "ab", 2, &ids, &n, &err)), &at_fault))
        for (size_t i = 0; i < n; i++)
            hold(ids[i] >= 0);
    bn_free(ids);
    if (info->n_vocab < 1u << 20 &&
        went_well(succeeds(bn_reference_logits(ref, IDS, 3, &logits, &err)), &at_fault))
        hold(logits != NULL);
    bn_free(logits);
    (void)went_well(succeeds(bn_reference_trace(ref, IDS, 3, &records, &err)), &at_fault);
    bn_records_release(&records);
    (void)went_well(succeeds(bn_reference_bench(ref, 2, 1, 1, &prompt_ns, &decode_ns, &err)), &at_fault);
    (void)went_well(succeeds(bn_reference_finish(ref, &err)), &at_fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char answers[64], command[80];
    struct bn_reference_options options = {.command = command, .timeout_ns = 2000000000u};
    struct bn_reference *ref = NULL;
    bool at_fault = false;
    snprintf(answers, sizeof answers, "%s/answers", fuzz_folder());
    snprintf(command, sizeof command, "cat %s", answers);
    write_file(answers, data, size);
    if (went_well(succeeds(bn_reference_start(&ref, &options, &err)), &at_fault)) ask(ref);
    bn_reference_close(ref);
    (void)unlink(answers);
    return 0;
}
