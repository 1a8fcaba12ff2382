/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the answers of a reference (docs/explain/crossval.md). The client ends with a status
 * and a message; once a reference is at fault, it is not believed again.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/compare/reference.h"
#include "tests/fuzz/fuzz.h"

static char folder[64], answers[96], command[128];

static void hold(bool ok)
{
    if (!ok) abort();
}

static void make_folder(void)
{
    if (folder[0] != '\0') return;
    snprintf(folder, sizeof folder, "/tmp/bn-fuzz-reference-XXXXXX");
    hold(mkdtemp(folder) != NULL);
    snprintf(answers, sizeof answers, "%s/answers", folder);
    snprintf(command, sizeof command, "cat %s", answers);
}

static void remove_folder(void)
{
    unlink(answers);
    rmdir(folder);
}

/* A failure has a message. What the client called a fault stays one. */
static bool went_well(bn_status status, const bn_error *err, bool *at_fault)
{
    hold(status == BN_OK || (err->code == status && err->msg[0] != '\0'));
    hold(!*at_fault || status != BN_OK);
    *at_fault |= status == BN_ERR_MISMATCH;
    return status == BN_OK;
}

static void ask(struct bn_reference *ref)
{
    static const int32_t IDS[] = {1, 2, 3};
    const struct bn_reference_info *info = bn_reference_info(ref);
    struct bn_records records = {0};
    bn_error err = {0};
    bool at_fault = false;
    int32_t *ids = NULL;
    float *logits = NULL;
    size_t n = 0;
    uint64_t prompt_ns, decode_ns;
    if (!went_well(bn_reference_open(ref, "model.gguf", 1, &err), &err, &at_fault)) return;
    hold(info->n_vocab > 0);
    err = (bn_error){0};
    if (went_well(bn_reference_tokenize(ref, "ab", 2, &ids, &n, &err), &err, &at_fault))
        for (size_t i = 0; i < n; i++)
            hold(ids[i] >= 0);
    bn_free(ids);
    err = (bn_error){0};
    if (info->n_vocab < 1u << 20 &&
        went_well(bn_reference_logits(ref, IDS, 3, &logits, &err), &err, &at_fault))
        hold(logits != NULL);
    bn_free(logits);
    err = (bn_error){0};
    (void)went_well(bn_reference_trace(ref, IDS, 3, &records, &err), &err, &at_fault);
    bn_records_release(&records);
    err = (bn_error){0};
    (void)went_well(bn_reference_bench(ref, 2, 1, 1, &prompt_ns, &decode_ns, &err), &err, &at_fault);
    err = (bn_error){0};
    (void)went_well(bn_reference_finish(ref, &err), &err, &at_fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bn_reference_options options = {.command = command, .timeout_ns = 2000000000u};
    struct bn_reference *ref = NULL;
    bn_error err = {0};
    bool at_fault = false;
    if (folder[0] == '\0') {
        make_folder();
        atexit(remove_folder);
    }
    FILE *file = fopen(answers, "wb");
    hold(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    if (went_well(bn_reference_start(&ref, &options, &err), &err, &at_fault)) ask(ref);
    bn_reference_close(ref);
    return 0;
}
