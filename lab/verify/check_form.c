/* SPDX-License-Identifier: MIT
 *
 * Rules about the form of a receipt and what binds it: signature, digests, identity of the model, schema,
 * time.
 */
#include <stdio.h>

#include "base/clock.h"
#include "grammar/grammar.h"
#include "lab/receipt/receipt.h"
#include "lab/verify/checks.h"
#include "lab/verify/training.h"

bool bn_check_signature(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const struct bn_receipt *r = in->receipt;
    uint64_t threshold = in->policy->signature_threshold == 0 ? 1 : in->policy->signature_threshold;
    out->no_data = r->form == BN_RECEIPT_BARE;
    if (r->form != BN_RECEIPT_ENVELOPE && in->policy->require_signature)
        return bn_rule_fail(out, "a signature is required, and there is none");
    if (r->form != BN_RECEIPT_ENVELOPE) return bn_rule_skip(out, "not signed");
    if (r->n_good >= threshold)
        return bn_rule_pass(out, "verified by %zu of %zu keys, %s first", r->n_good, r->n_keys, r->key_id);
    if (r->n_keys > 0)
        return bn_rule_fail(out, "%zu of %zu keys verify it, %llu must", r->n_good, r->n_keys,
                            (unsigned long long)threshold);
    if (r->payload_unverified && !in->policy->require_signature)
        return bn_rule_skip(out, "signed, and not checked: no public key was given");
    return bn_rule_fail(out, "signed, and no public key was given to check it with");
}

bool bn_check_self_digest(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *claimed = NULL;
    char hex[BN_SHA256_HEX];
    const bn_json *member = bn_json_get(in->receipt->statement, "receipt_sha256");
    if (in->receipt->statement == NULL)
        return bn_rule_skip(out, "a bare predicate carries no digest of itself");
    if (member == NULL && in->receipt->form == BN_RECEIPT_ENVELOPE)
        return bn_rule_skip(out, "left to the signature");
    if (!bn_json_string(member, &claimed)) return bn_rule_fail(out, "receipt_sha256 is missing");
    bn_status status = bn_receipt_self_digest(in->receipt->statement, hex, NULL);
    if (status != BN_OK) return bn_rule_error(out, status);
    if (strcmp(hex, claimed) != 0)
        return bn_rule_fail(
            out, "the content has sha256 %.16s..., receipt_sha256 is different: it was edited", hex);
    return bn_rule_pass(out, "%.16s...", hex);
}

/* A subject that is a name and one sha256, and nothing else: another digest or a URI would be about another
 * thing, which stores of attestations then find under this receipt. */
static bool read_subject(const bn_json *subject, const char **name, const char **digest)
{
    const bn_json *digests = bn_json_get(subject, "digest");
    return bn_json_size(subject) == 2 && bn_json_string(bn_json_get(subject, "name"), name) &&
           bn_json_kind(digests) == BN_JSON_OBJECT && bn_json_size(digests) == 1 &&
           bn_json_string(bn_json_get(digests, "sha256"), digest) && bn_is_sha256(*digest);
}

/* The name that the model's subject must have. */
static const char *model_name(const struct bn_rules_input *in)
{
    const char *path = NULL;
    return bn_json_string(bn_json_path(in->receipt->predicate, "model.path"), &path)
               ? bn_receipt_base_name(path)
               : "model";
}

bool bn_check_subject(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *model = NULL, *ids = NULL, *names[2] = {NULL}, *digests[2] = {NULL};
    const bn_json *subjects = bn_json_get(in->receipt->statement, "subject");
    char quoted[80];
    if (in->receipt->statement == NULL) return bn_rule_skip(out, "a bare predicate has no subject");
    if (bn_json_kind(subjects) != BN_JSON_ARRAY || bn_json_size(subjects) != 2)
        return bn_rule_fail(out, "%zu subjects instead of two, the model and the tokens",
                            bn_json_size(subjects));
    for (size_t i = 0; i < 2; i++)
        if (!read_subject(bn_json_at(subjects, i), &names[i], &digests[i]))
            return bn_rule_fail(out, "subject %zu is not a name and one sha256 in lower case", i);
    if (!bn_rule_digest(in, "model.sha256", &model, out)) return false;
    if (!bn_rule_digest(in, "result.ids_sha256", &ids, out)) return false;
    if (strcmp(digests[0], model) != 0)
        return bn_rule_fail(out, "the digest of subject 0 is not model.sha256");
    if (strcmp(names[0], model_name(in)) != 0)
        return bn_rule_fail(out, "subject 0 is \"%s\", model.path gives another name",
                            bn_rule_quote(quoted, names[0]));
    if (strcmp(names[1], "tokens") != 0 || strcmp(digests[1], ids) != 0)
        return bn_rule_fail(out, "subject 1 is not \"tokens\" with the digest result.ids_sha256");
    return bn_rule_pass(out, "model %.16s..., tokens %.16s...", model, ids);
}

/* Is the list at path what digest_path says? Sets *out only when it is not. */
static bool list_matches(const struct bn_rules_input *in, const char *path, const char *digest_path,
                         size_t *n, struct bn_rule_result *out)
{
    uint64_t *list;
    const char *digest = NULL;
    char hex[BN_SHA256_HEX];
    if (!bn_rule_list(in, path, &list, n, out)) return false;
    int32_t *ids = bn_alloc(*n, sizeof *ids);
    bool ok = ids != NULL;
    if (!ok) bn_rule_error(out, BN_ERR_NOMEM);
    for (size_t i = 0; i < *n && ok; i++) {
        ok = list[i] <= INT32_MAX;
        ids[i] = (int32_t)(ok ? list[i] : 0);
        if (!ok)
            bn_rule_fail(out, "%s has the id %llu, which is not a token", path, (unsigned long long)list[i]);
    }
    ok = ok && bn_rule_digest(in, digest_path, &digest, out);
    bn_status status = ok ? bn_receipt_ids_digest(ids, *n, hex, NULL) : BN_OK;
    if (status != BN_OK) bn_rule_error(out, status);
    ok = ok && status == BN_OK;
    if (ok && strcmp(hex, digest) != 0) {
        bn_rule_fail(out, "the digest of %s is not %s", path, digest_path);
        ok = false;
    }
    bn_free(ids);
    bn_free(list);
    return ok;
}

bool bn_check_ids_digest(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    size_t n_prompt, n;
    if (!list_matches(in, "request.prompt_ids", "request.prompt_ids_sha256", &n_prompt, out)) return false;
    if (!list_matches(in, "result.ids", "result.ids_sha256", &n, out)) return false;
    return bn_rule_pass(out, "%zu prompt ids, %zu generated ids", n_prompt, n);
}

bool bn_check_text_digests(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const char *const PAIRS[][2] = {{"request.prompt", "request.prompt_sha256"},
                                           {"request.grammar.text", "request.grammar.text_sha256"},
                                           {"result.text", "result.text_sha256"}};
    unsigned n = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(PAIRS); i++) {
        const char *text = NULL, *digest = NULL;
        char hex[BN_SHA256_HEX];
        if (bn_json_path(in->receipt->predicate, PAIRS[i][0]) == NULL) continue;
        if (!bn_rule_text(in, PAIRS[i][0], &text, out) || !bn_rule_digest(in, PAIRS[i][1], &digest, out))
            return false;
        bn_status status = bn_sha256_hex(text, strlen(text), hex, NULL);
        if (status != BN_OK) return bn_rule_error(out, status);
        if (strcmp(hex, digest) != 0)
            return bn_rule_fail(out, "the digest of %s is not %s", PAIRS[i][0], PAIRS[i][1]);
        n++;
    }
    if (n == 0) return bn_rule_skip(out, "the texts are not shown");
    return bn_rule_pass(out, "%u shown text%s", n, n == 1 ? "" : "s");
}

bool bn_check_model(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *claimed = NULL;
    bool other_tool = in->receipt->statement == NULL &&
                      bn_json_string(bn_json_path(in->receipt->predicate, "model_info.sha256"), &claimed);
    if (!other_tool && !bn_rule_digest(in, "model.sha256", &claimed, out)) return false;
    if (in->model_sha256 == NULL)
        return bn_rule_skip(out, "there is no model to compare with (--model FILE)");
    if (strcmp(in->model_sha256, claimed) == 0)
        return bn_rule_pass(out, "%s", in->model_is_default ? "the built-in model" : "the model given");
    if (in->model_is_default) return bn_rule_skip(out, "not the built-in model (--model FILE)");
    return bn_rule_fail(out, "the model given has sha256 %.16s..., the receipt's is %.16s...",
                        in->model_sha256, claimed);
}

/* What nothing binds can be written by hand: it is undecided, and a demand has no data. */
bool bn_check_bound_to_run(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    struct bn_rule_result other = {0};
    bool training = in->receipt->form == BN_RECEIPT_TRAINING;
    if (in->replay != NULL && in->replay->same) return bn_rule_pass(out, "by its replay");
    if (bn_check_signature(in, &other)) return bn_rule_pass(out, "by its signature");
    if (!training && bn_check_self_digest(in, &other)) return bn_rule_pass(out, "by its digest");
    if (other.status != BN_OK) return bn_rule_error(out, other.status);
    if (training && (bn_check_training_model(in, &other) || bn_check_training_checkpoint(in, &other)))
        return bn_rule_pass(out, "by a file of the run");
    return bn_rule_set(out, bn_receipt_policy_demands(in->policy) ? BN_VERDICT_FAIL : BN_VERDICT_UNDECIDED,
                       "nothing binds it to a run: it has neither a signature nor %s",
                       training ? "a file of the run at hand" : "a digest");
}

/* ---- schema and time ---- */

#define FIRST_UTC 1767225600 /* 2026-01-01: the format is younger */

bool bn_check_form(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const char *const NAMES[] = {
        [BN_RECEIPT_BARE] = "a bare predicate",
        [BN_RECEIPT_STATEMENT] = "an unsigned statement",
        [BN_RECEIPT_TRAINING] = "the record of a training run",
        [BN_RECEIPT_ENVELOPE] = "a signed envelope",
    };
    enum bn_receipt_form form = in->receipt->form;
    bool accepted = form == BN_RECEIPT_BARE || form == BN_RECEIPT_TRAINING ? in->policy->accept_bare
                    : form == BN_RECEIPT_STATEMENT                         ? in->policy->accept_statement
                                                                           : in->policy->accept_envelope;
    if (accepted) return bn_rule_pass(out, "%s", NAMES[form]);
    return bn_rule_fail(out, "%s, which the policy does not accept", NAMES[form]);
}

/* schema_version and compute_path are what makes a bare predicate one: they do not skip. */
bool bn_check_schema_version(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *version = NULL;
    char quoted[80];
    if (!bn_json_string(bn_json_get(in->receipt->predicate, "schema_version"), &version))
        return bn_rule_fail(out, "schema_version is missing");
    if (strcmp(version, BN_RECEIPT_SCHEMA_VERSION) != 0 && strcmp(version, "1.0") != 0)
        return bn_rule_fail(out, "schema_version is \"%s\", not \"1.0.0\" or \"1.0\"",
                            bn_rule_quote(quoted, version));
    return bn_rule_pass(out, "%s", version);
}

/* RFC 3339: any offset, any fraction. */
static bool parse_time(const char *text, int64_t *utc)
{
    char whole[21];
    unsigned hours = 0, minutes = 0;
    int used = 0;
    size_t n = strlen(text), at = 19;
    if (n < 20 || n > 40) return false;
    snprintf(whole, sizeof whole, "%.19sZ", text);
    if (whole[10] == 't' || whole[10] == ' ') whole[10] = 'T';
    if (!bn_clock_parse(whole, utc)) return false;
    if (text[at] == '.') {
        size_t digits = strspn(text + at + 1, "0123456789");
        if (digits == 0) return false;
        at += 1 + digits;
    }
    if ((text[at] == 'Z' || text[at] == 'z') && text[at + 1] == '\0') return true;
    if ((text[at] != '+' && text[at] != '-') || strspn(text + at + 1, "0123456789:") != 5) return false;
    if (sscanf(text + at + 1, "%2u:%2u%n", &hours, &minutes, &used) != 2 || used != 5 || text[at + 6] != '\0')
        return false;
    if (hours > 23 || minutes > 59) return false;
    int64_t offset = (int64_t)hours * 3600 + (int64_t)minutes * 60;
    *utc += text[at] == '+' ? -offset : offset;
    return true;
}

static bool read_time(const struct bn_rules_input *in, int64_t *utc, struct bn_rule_result *out)
{
    const char *text = NULL;
    char quoted[80];
    if (!bn_rule_text(in, "timestamp", &text, out)) return false;
    if (parse_time(text, utc)) return true;
    return bn_rule_fail(out, "\"%s\" is not an RFC 3339 time", bn_rule_quote(quoted, text));
}

bool bn_check_timestamp(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    int64_t utc;
    char text[21];
    if (!read_time(in, &utc, out)) return false;
    bn_clock_format(utc, text);
    if (utc > in->now_utc + (int64_t)in->policy->clock_skew_s)
        return bn_rule_fail(out, "%s is %lld s in the future", text, (long long)(utc - in->now_utc));
    if (in->receipt->statement != NULL && utc < FIRST_UTC)
        return bn_rule_fail(out, "%s is before the first receipt of this kind", text);
    return bn_rule_pass(out, "%s, as the signer claims", text);
}

bool bn_check_freshness(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    int64_t utc;
    if (in->policy->max_age_s == 0) return bn_rule_skip(out, "not asked for (--max-age)");
    if (!read_time(in, &utc, out)) {
        out->verdict = BN_VERDICT_FAIL;
        return false;
    }
    int64_t age = in->now_utc - utc;
    if (age > (int64_t)in->policy->max_age_s)
        return bn_rule_fail(out, "%lld s old, at most %llu are allowed", (long long)age,
                            (unsigned long long)in->policy->max_age_s);
    return bn_rule_pass(out, "%lld s old", (long long)age);
}

/* What was asked for decides what a result means, so nothing in it may go unread. */
bool bn_check_request_fields(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const char *const FIELDS[] = {
        "prompt_sha256", "prompt", "prompt_ids", "prompt_ids_sha256", "n_predict",   "temperature",
        "top_k",         "top_p",  "min_p",      "repeat_penalty",    "repeat_last", "seed",
        "stop_ids",      "stops",  "ignore_end", "template",          "isa",         "threads",
        "ctx",           "batch",  "think",      "grammar",
    };
    const bn_json *request = bn_rule_claim(in, "request", out);
    char quoted[80];
    if (request == NULL) return false;
    for (const bn_json *m = bn_json_first(request); m != NULL; m = bn_json_next(m)) {
        size_t i = 0;
        while (i < BN_ARRAY_LEN(FIELDS) && strcmp(bn_json_name(m), FIELDS[i]) != 0)
            i++;
        if (i < BN_ARRAY_LEN(FIELDS)) continue;
        return bn_rule_fail(out, "request.%s is not a field that this program knows",
                            bn_rule_quote(quoted, bn_json_name(m)));
    }
    bool think;
    if (bn_json_get(request, "think") != NULL && !bn_json_bool(bn_json_get(request, "think"), &think))
        return bn_rule_fail(out, "request.think is not true or false");
    const bn_json *grammar = bn_json_get(request, "grammar");
    enum bn_grammar_kind kind;
    if (grammar != NULL &&
        (bn_json_size(grammar) != 3 || !bn_grammar_kind_from_name(bn_json_text_of(grammar, "kind"), &kind) ||
         bn_json_get(grammar, "text") == NULL || bn_json_get(grammar, "text_sha256") == NULL))
        return bn_rule_fail(out, "request.grammar is not an object of a known kind, text_sha256 and text");
    return bn_rule_pass(out, "%zu fields, all known", bn_json_size(request));
}
