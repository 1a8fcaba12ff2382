/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a safetensors file and as a tokenizer.json. Whoever reads them ends with a status and a message;
 * the tensors of an accepted file are in its bytes, cover its data and are found by their names.
 */
#include "tests/fuzz/fuzz.h"

#include "hub/files/safetensors.h"
#include "hub/files/vocab.h"

static void read_tensors(const uint8_t *data, size_t size)
{
    struct bn_safetensors st;
    uint64_t total = 0;
    bool read = succeeds(bn_safetensors_open(&st, data, size, &err));
    for (size_t i = 0; i < st.n; i++) {
        const struct bn_st_tensor *t = &st.tensors[i];
        hold(bn_safetensors_find(&st, t->name) == t);
        hold(t->offset <= size && t->n_bytes <= size - t->offset && t->data == data + t->offset);
        hold(t->info_offset < size);
        total += t->n_bytes;
    }
    hold(!read || total < size);
    bn_safetensors_close(&st);
}

static void read_vocab(const char *text, size_t n)
{
    struct bn_hub_vocab v = {.max = 300};
    (void)succeeds(bn_hub_vocab_read(&v, text, n, &err));
    for (size_t i = 0; i < v.n && v.tokens != NULL; i++)
        hold(v.tokens[i].at <= v.texts.len && v.tokens[i].len <= v.texts.len - v.tokens[i].at);
    bn_hub_vocab_release(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_tensors(data, size);
    read_vocab((const char *)data, size);
    return 0;
}
