/* SPDX-License-Identifier: MIT
 *
 * The computations that building a receipt and checking one have to agree on; see receipt.h.
 */
#include <stdlib.h>

#include "base/error.h"
#include "lab/receipt/receipt.h"
#include "model/model.h"

#define MAX_TEXT (64u << 20)

const char *bn_receipt_base_name(const char *path)
{
    if (strncmp(path, "hf:", 3) == 0) return path; /* a name of the hub, not of a folder here */
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

const char *bn_receipt_other_isa(const char *kernel, const char *isa)
{
    const char *end = strrchr(kernel, '_');
    return end != NULL && strcmp(end + 1, isa) != 0 ? end + 1 : NULL;
}

const char *bn_receipt_quantization(const bn_model *model)
{
    const struct bn_gguf_tensor *first = bn_gguf_find_tensor(&model->gguf, "blk.0.attn_q.weight");
    const struct bn_type_info *type = first == NULL ? NULL : bn_type_info(first->type);
    return type == NULL ? NULL : type->name;
}

/* The canonical text of the statement without one member. A copy of the tree without that member would need
 * as much memory as the tree itself. */
static bn_status write_without(const bn_json *object, const char *name, struct bn_buf *text, bn_error *err)
{
    size_t n;
    bn_status status = BN_OK;
    const bn_json **members = bn_json_sorted(object, &n), *before = NULL;
    if (object == NULL || members == NULL) {
        bn_free(members);
        return bn_nomem(err);
    }
    bn_buf_putc(text, '{');
    for (size_t i = 0; i < n && status == BN_OK; i++) {
        if (strcmp(bn_json_name(members[i]), name) == 0) continue;
        if (before != NULL) bn_buf_putc(text, ',');
        before = members[i];
        bn_json_write_string(text, bn_json_name(before));
        bn_buf_putc(text, ':');
        status = bn_json_write(before, true, text, err);
    }
    bn_buf_putc(text, '}');
    bn_free(members);
    return status == BN_OK ? bn_buf_check(text, err) : status;
}

bn_status bn_receipt_self_digest(const bn_json *statement, char hex[BN_SHA256_HEX], bn_error *err)
{
    struct bn_buf text = {.max = MAX_TEXT};
    bn_status status = write_without(statement, "receipt_sha256", &text, err);
    if (status == BN_OK) bn_sha256_hex(text.data, text.len, hex);
    bn_buf_release(&text);
    return status;
}

bn_status bn_receipt_seal(bn_json *statement, bn_error *err)
{
    char hex[BN_SHA256_HEX];
    BN_TRY(bn_receipt_self_digest(statement, hex, err));
    bn_json_put_string(statement, "receipt_sha256", hex);
    return bn_json_is_complete(statement) ? BN_OK : bn_nomem(err);
}

void bn_receipt_ids_digest(const int32_t *ids, size_t n, char hex[BN_SHA256_HEX])
{
    bn_sha256_hex(ids, n * sizeof *ids, hex); /* every target is little endian */
}

bool bn_receipt_seed(const bn_json *seed, uint64_t *value)
{
    const char *digits = "";
    if (bn_json_u64(seed, value)) return true;
    if (!bn_json_string(seed, &digits) || digits[0] == '\0' || strlen(digits) > 20) return false;
    for (*value = 0; *digits >= '0' && *digits <= '9'; digits++)
        if (!bn_mul_ok(*value, 10, value) || !bn_add_ok(*value, (uint64_t)(*digits - '0'), value))
            return false;
    return *digits == '\0';
}

uint64_t bn_receipt_rate_milli(uint64_t n, uint64_t ns)
{
    uint64_t scaled;
    if (ns == 0) return 0;
    if (!bn_mul_ok(n, UINT64_C(1000000000000), &scaled) || !bn_add_ok(scaled, ns / 2, &scaled)) return 0;
    return scaled / ns;
}

const struct bn_receipt_percentile bn_receipt_percentiles[BN_RECEIPT_PERCENTILES] = {
    {"p50_ns", 50}, {"p95_ns", 95}, {"p99_ns", 99}, {"max_ns", 100}};

uint64_t bn_receipt_percentile(const uint64_t *sorted, size_t n, unsigned percent)
{
    size_t rank = (n * percent + 99) / 100;
    return sorted[rank == 0 ? 0 : rank - 1];
}

static int ascending(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

bn_status bn_receipt_sort_samples(const uint64_t *token_ns, size_t n, uint64_t **sorted, size_t *n_sorted,
                                  bn_error *err)
{
    size_t skip = n > 1 ? 1 : 0;
    *n_sorted = n - skip;
    *sorted = bn_alloc(*n_sorted, sizeof **sorted);
    if (*sorted == NULL) return bn_nomem(err);
    if (*n_sorted > 0) memcpy(*sorted, token_ns + skip, *n_sorted * sizeof **sorted);
    qsort(*sorted, *n_sorted, sizeof **sorted, ascending);
    return BN_OK;
}
