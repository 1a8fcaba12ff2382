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

bool bn_check_signature(const struct bn_check *c)
{
    const struct bn_receipt *r = c->in->receipt;
    uint64_t threshold = c->in->policy->signature_threshold == 0 ? 1 : c->in->policy->signature_threshold;
    const struct bn_training_files *f = c->in->files; /* without one of the run it is as a bare predicate */
    bool alone = f == NULL || (f->model_sha256[0] == '\0' && f->checkpoint_sha256[0] == '\0');
    c->out->no_data = r->form == BN_RECEIPT_BARE || (r->form == BN_RECEIPT_TRAINING && alone);
    if (r->form != BN_RECEIPT_ENVELOPE && c->in->policy->require_signature)
        return FAIL(c, "a signature is required, and there is none");
    if (r->form != BN_RECEIPT_ENVELOPE) return SKIP(c, "not signed");
    if (r->n_good >= threshold)
        return PASS(c, "verified by %zu of %zu keys, %s first", r->n_good, r->n_keys, r->key_id);
    if (r->n_keys > 0)
        return FAIL(c, "%zu of %zu keys verify it, %llu must", r->n_good, r->n_keys,
                    (unsigned long long)threshold);
    if (r->payload_unverified && !c->in->policy->require_signature)
        return SKIP(c, "signed, and not checked: no public key was given");
    return FAIL(c, "signed, and no public key was given to check it with");
}

bool bn_check_self_digest(const struct bn_check *c)
{
    const char *claimed = NULL;
    char hex[BN_SHA256_HEX];
    const bn_json *member = bn_json_get(c->in->receipt->statement, "receipt_sha256");
    if (c->bare) return SKIP(c, "a bare predicate carries no digest of itself");
    if (member == NULL && c->in->receipt->form == BN_RECEIPT_ENVELOPE)
        return SKIP(c, "left to the signature");
    if (!bn_json_string(member, &claimed)) return FAIL(c, "receipt_sha256 is missing");
    bn_status status = bn_receipt_self_digest(c->in->receipt->statement, hex, NULL);
    if (status != BN_OK) return bn_rule_error(c, status);
    if (strcmp(hex, claimed) != 0)
        return FAIL(c, "the content has sha256 %.16s..., receipt_sha256 is different: it was edited", hex);
    return PASS(c, "%.16s...", hex);
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

bool bn_check_subject(const struct bn_check *c)
{
    const char *model = NULL, *ids = NULL, *path = "model", *names[2] = {NULL}, *digests[2] = {NULL};
    const bn_json *subjects = bn_json_get(c->in->receipt->statement, "subject");
    if (c->bare) return SKIP(c, "a bare predicate has no subject");
    if (bn_json_kind(subjects) != BN_JSON_ARRAY || bn_json_size(subjects) != 2)
        return FAIL(c, "%zu subjects instead of two, the model and the tokens", bn_json_size(subjects));
    for (size_t i = 0; i < 2; i++)
        if (!read_subject(bn_json_at(subjects, i), &names[i], &digests[i]))
            return FAIL(c, "subject %zu is not a name and one sha256 in lower case", i);
    if (!bn_rule_digest(c, "model.sha256", &model)) return false;
    if (!bn_rule_digest(c, "result.ids_sha256", &ids)) return false;
    if (strcmp(digests[0], model) != 0) return FAIL(c, "the digest of subject 0 is not model.sha256");
    (void)bn_json_string(bn_json_path(c->p, "model.path"), &path);
    if (strcmp(names[0], bn_receipt_base_name(path)) != 0)
        return FAIL(c, "subject 0 is \"%s\", model.path gives another name", names[0]);
    if (strcmp(names[1], "tokens") != 0 || strcmp(digests[1], ids) != 0)
        return FAIL(c, "subject 1 is not \"tokens\" with the digest result.ids_sha256");
    return PASS(c, "model %.16s..., tokens %.16s...", model, ids);
}

bool bn_check_release_subjects(const struct bn_check *c)
{
    const bn_json *subjects = bn_json_get(c->in->receipt->statement, "subject");
    const char *name, *digest;
    size_t n = bn_json_size(subjects);
    if (bn_json_kind(subjects) != BN_JSON_ARRAY || n == 0 || n > 1000)
        return FAIL(c, "%zu subjects instead of 1 to 1000", n);
    for (const bn_json *s = bn_json_first(subjects); s != NULL; s = bn_json_next(s)) {
        if (!read_subject(s, &name, &digest) || name[0] == '\0' || name[0] == '.' || strchr(name, '/'))
            return FAIL(c, "a subject is not a file name and one sha256 in lower case");
        if (bn_json_find(subjects, "name", name) != s) return FAIL(c, "%.120s is there twice", name);
    }
    return PASS(c, "%zu files", n);
}

/* Is the list at path what digest_path says? Sets *out only when it is not. */
static bool list_matches(const struct bn_check *c, const char *path, const char *digest_path, size_t *n)
{
    uint64_t *list;
    const char *digest = NULL;
    char hex[BN_SHA256_HEX];
    if (!bn_rule_list(c, path, &list, n)) return false;
    int32_t *ids = bn_alloc(*n, sizeof *ids);
    bool ok = ids != NULL;
    if (!ok) bn_rule_error(c, BN_ERR_NOMEM);
    for (size_t i = 0; i < *n && ok; i++) {
        ok = list[i] <= INT32_MAX;
        ids[i] = (int32_t)(ok ? list[i] : 0);
        if (!ok) FAIL(c, "%s has the id %llu, which is not a token", path, (unsigned long long)list[i]);
    }
    ok = ok && bn_rule_digest(c, digest_path, &digest);
    if (ok) bn_receipt_ids_digest(ids, *n, hex);
    if (ok && strcmp(hex, digest) != 0) {
        FAIL(c, "the digest of %s is not %s", path, digest_path);
        ok = false;
    }
    bn_free(ids);
    bn_free(list);
    return ok;
}

bool bn_check_ids_digest(const struct bn_check *c)
{
    size_t n_prompt, n;
    if (!list_matches(c, "request.prompt_ids", "request.prompt_ids_sha256", &n_prompt)) return false;
    if (!list_matches(c, "result.ids", "result.ids_sha256", &n)) return false;
    return PASS(c, "%zu prompt ids, %zu generated ids", n_prompt, n);
}

bool bn_check_text_digests(const struct bn_check *c)
{
    static const char *const PAIRS[][2] = {{"request.prompt", "request.prompt_sha256"},
                                           {"request.grammar.text", "request.grammar.text_sha256"},
                                           {"result.text", "result.text_sha256"}};
    unsigned n = 0;
    for (size_t i = 0; i < BN_ARRAY_LEN(PAIRS); i++) {
        const char *text = NULL, *digest = NULL;
        char hex[BN_SHA256_HEX];
        if (bn_json_path(c->p, PAIRS[i][0]) == NULL) continue;
        if (!bn_rule_text(c, PAIRS[i][0], &text) || !bn_rule_digest(c, PAIRS[i][1], &digest)) return false;
        bn_sha256_hex(text, strlen(text), hex);
        if (strcmp(hex, digest) != 0) return FAIL(c, "the digest of %s is not %s", PAIRS[i][0], PAIRS[i][1]);
        n++;
    }
    if (n == 0) return SKIP(c, "the texts are not shown");
    return PASS(c, "%u shown text%s", n, n == 1 ? "" : "s");
}

bool bn_check_model(const struct bn_check *c)
{
    const char *claimed = NULL;
    bool other_tool = c->bare && bn_json_string(bn_json_path(c->p, "model_info.sha256"), &claimed);
    if (!other_tool && !bn_rule_digest(c, "model.sha256", &claimed)) return false;
    if (c->in->model_sha256 == NULL) return SKIP(c, "there is no model to compare with (--model FILE)");
    if (strcmp(c->in->model_sha256, claimed) == 0)
        return PASS(c, "%s", c->in->model_is_default ? "the built-in model" : "the model given");
    if (c->in->model_is_default) return SKIP(c, "not the built-in model (--model FILE)");
    return FAIL(c, "the model given has sha256 %.16s..., the receipt's is %.16s...", c->in->model_sha256,
                claimed);
}

/* What nothing binds can be written by hand: it is undecided, and a demand has no data. */
bool bn_check_bound_to_run(const struct bn_check *c)
{
    struct bn_rule_result result = {0};
    struct bn_check other = *c;
    other.out = &result;
    bool training = c->in->receipt->form == BN_RECEIPT_TRAINING;
    if (c->in->replay != NULL && c->in->replay->same) return PASS(c, "by its replay");
    if (bn_check_signature(&other)) return PASS(c, "by its signature");
    if (!training && bn_check_self_digest(&other)) return PASS(c, "by its digest");
    if (result.status != BN_OK) return bn_rule_error(c, result.status);
    if (training && (bn_check_training_model(&other) || bn_check_training_checkpoint(&other)))
        return PASS(c, "by a file of the run");
    return bn_rule_set(c, bn_receipt_policy_demands(c->in->policy) ? BN_VERDICT_FAIL : BN_VERDICT_UNDECIDED,
                       "nothing binds it to a run: it has neither a signature nor %s",
                       training ? "a file of the run at hand" : "a digest");
}

/* ---- schema and time ---- */

#define FIRST_UTC 1767225600 /* 2026-01-01: the format is younger */

bool bn_check_form(const struct bn_check *c)
{
    static const char *const NAMES[] = {
        [BN_RECEIPT_BARE] = "a bare predicate",
        [BN_RECEIPT_STATEMENT] = "an unsigned statement",
        [BN_RECEIPT_TRAINING] = "the record of a training run",
        [BN_RECEIPT_ENVELOPE] = "a signed envelope",
    };
    enum bn_receipt_form form = c->in->receipt->form;
    bool accepted = form == BN_RECEIPT_BARE || form == BN_RECEIPT_TRAINING ? c->in->policy->accept_bare
                    : form == BN_RECEIPT_STATEMENT                         ? c->in->policy->accept_statement
                                                                           : c->in->policy->accept_envelope;
    if (accepted) return PASS(c, "%s", NAMES[form]);
    return FAIL(c, "%s, which the policy does not accept", NAMES[form]);
}

/* schema_version and compute_path are what makes a bare predicate one: they do not skip. */
bool bn_check_schema_version(const struct bn_check *c)
{
    const char *version = NULL;
    if (!bn_json_string(bn_json_get(c->p, "schema_version"), &version))
        return FAIL(c, "schema_version is missing");
    if (strcmp(version, BN_RECEIPT_SCHEMA_VERSION) != 0 && strcmp(version, "1.0") != 0)
        return FAIL(c, "schema_version is \"%s\", not \"1.0.0\" or \"1.0\"", version);
    return PASS(c, "%s", version);
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

static bool read_time(const struct bn_check *c, int64_t *utc)
{
    const char *text = NULL;
    if (!bn_rule_text(c, "timestamp", &text)) return false;
    if (parse_time(text, utc)) return true;
    return FAIL(c, "\"%s\" is not an RFC 3339 time", text);
}

bool bn_check_timestamp(const struct bn_check *c)
{
    int64_t utc;
    char text[21];
    if (!read_time(c, &utc)) return false;
    bn_clock_format(utc, text);
    if (utc > c->in->now_utc + (int64_t)c->in->policy->clock_skew_s)
        return FAIL(c, "%s is %lld s in the future", text, (long long)(utc - c->in->now_utc));
    if (!c->bare && utc < FIRST_UTC) return FAIL(c, "%s is before the first receipt of this kind", text);
    return PASS(c, "%s, as the signer claims", text);
}

bool bn_check_freshness(const struct bn_check *c)
{
    int64_t utc;
    if (c->in->policy->max_age_s == 0) return SKIP(c, "not asked for (--max-age)");
    if (!read_time(c, &utc)) {
        c->out->verdict = BN_VERDICT_FAIL;
        return false;
    }
    int64_t age = c->in->now_utc - utc;
    if (age > (int64_t)c->in->policy->max_age_s)
        return FAIL(c, "%lld s old, at most %llu are allowed", (long long)age,
                    (unsigned long long)c->in->policy->max_age_s);
    return PASS(c, "%lld s old", (long long)age);
}

/* What was asked for decides what a result means, so nothing in it may go unread. */
bool bn_check_request_fields(const struct bn_check *c)
{
    static const char *const FIELDS[] = {
        "prompt_ids",    "ctx",         "batch",      "n_predict", "ignore_end",        "top_k",
        "think",         "isa",         "logit_bias", "stops",     "frequency_penalty", "repeat_penalty",
        "prompt_sha256", "temperature", "prompt",     "seed",      "prompt_ids_sha256", "threads",
        "repeat_last",   "grammar",     "min_p",      "top_p",     "presence_penalty",  "template",
        "stop_ids"};
    const bn_json *request = bn_rule_claim(c, "request");
    if (request == NULL) return false;
    for (const bn_json *m = bn_json_first(request); m != NULL; m = bn_json_next(m))
        if (!BN_HAS(FIELDS, bn_json_name(m)))
            return FAIL(c, "request.%s is not a field that this program knows", bn_json_name(m));
    bool think;
    if (bn_json_get(request, "think") != NULL && !bn_json_bool(bn_json_get(request, "think"), &think))
        return FAIL(c, "request.think is not true or false");
    const bn_json *grammar = bn_json_get(request, "grammar");
    enum bn_grammar_kind kind;
    if (grammar != NULL &&
        (bn_json_size(grammar) != 3 || !bn_grammar_kind_from_name(bn_json_text_of(grammar, "kind"), &kind) ||
         bn_json_get(grammar, "text") == NULL || bn_json_get(grammar, "text_sha256") == NULL))
        return FAIL(c, "request.grammar is not an object of a known kind, text_sha256 and text");
    return PASS(c, "%zu fields, all known", bn_json_size(request));
}

/* ---- origin ---- */

static bool of_training(const struct bn_check *c)
{
    return c->in->receipt->form == BN_RECEIPT_TRAINING;
}

bool bn_check_model_allowed(const struct bn_check *c)
{
    const char *digest = NULL;
    size_t n = 0;
    (void)bn_receipt_policy_lists(c->in->policy, "model_sha256", "", &n);
    if (n == 0) return SKIP(c, "the policy lists no models");
    const char *path = of_training(c) ? "result.model_sha256" : "model.sha256";
    if (!bn_json_string(bn_json_path(c->p, path), &digest)) return FAIL(c, "%s is missing", path);
    if (!bn_receipt_policy_lists(c->in->policy, "model_sha256", digest, NULL))
        return FAIL(c, "the model is none of the %zu that the policy lists", n);
    return PASS(c, "one of %zu", n);
}

static bool is_commit(const char *text)
{
    size_t n = strlen(text);
    return (n == 40 || n == 64) && strspn(text, "0123456789abcdef") == n;
}

/* commit and dirty of an object: null, or a commit's digits and true or false. */
static bool read_stamp(const struct bn_check *c, const bn_json *object, const char **commit, bool *dirty)
{
    const bn_json *id = bn_json_get(object, "commit"), *flag = bn_json_get(object, "dirty");
    *commit = NULL;
    *dirty = true;
    if (id == NULL || flag == NULL) return FAIL(c, "commit or dirty is missing");
    bool id_ok = bn_json_kind(id) == BN_JSON_NULL || (bn_json_string(id, commit) && is_commit(*commit));
    bool flag_ok = bn_json_kind(flag) == BN_JSON_NULL || bn_json_bool(flag, dirty);
    if (!id_ok || !flag_ok) FAIL(c, "%s is malformed", id_ok ? "dirty" : "commit");
    return id_ok && flag_ok;
}

bool bn_check_program(const struct bn_check *c)
{
    const char *commit = NULL, *digest = NULL;
    bool dirty;
    size_t n = 0;
    const bn_json *program = bn_rule_claim(c, of_training(c) ? "program" : "resolved.program");
    (void)bn_receipt_policy_lists(c->in->policy, "program_sha256", "", &n);
    bool demanded = n > 0 || c->in->policy->require_clean_program;
    if (program == NULL || !read_stamp(c, program, &commit, &dirty)) {
        if (demanded) c->out->verdict = BN_VERDICT_FAIL;
        return false;
    }
    (void)bn_json_string(bn_json_get(program, of_training(c) ? "binary_sha256" : "sha256"), &digest);
    if (digest != NULL && !bn_is_sha256(digest)) return FAIL(c, "the program's sha256 is malformed");
    if (n > 0 && (digest == NULL || !bn_receipt_policy_lists(c->in->policy, "program_sha256", digest, NULL)))
        return FAIL(c, "the program is none of the %zu that the policy lists", n);
    if (c->in->policy->require_clean_program && (commit == NULL || dirty))
        return FAIL(c, "the program was not built from a committed tree");
    return PASS(c, "commit %.12s%s", commit == NULL ? "unknown" : commit,
                commit != NULL && dirty ? " with changes" : "");
}

bool bn_check_git(const struct bn_check *c)
{
    const char *commit = NULL;
    bool dirty;
    uint64_t n_changed = 0;
    const bn_json *git = bn_rule_claim(c, "git");
    if (git == NULL || !read_stamp(c, git, &commit, &dirty)) {
        if (c->in->policy->require_clean_git) c->out->verdict = BN_VERDICT_FAIL;
        return false;
    }
    bool known = bn_json_kind(bn_json_get(git, "dirty")) == BN_JSON_BOOL;
    const bn_json *changed = bn_json_get(git, "changed_files");
    bool counted = bn_json_u64(changed, &n_changed);
    if (known != counted || (!counted && bn_json_kind(changed) != BN_JSON_NULL) ||
        (counted && dirty != (n_changed > 0)))
        return FAIL(c, "git.dirty and git.changed_files contradict each other");
    if (c->in->policy->require_clean_git && (commit == NULL || dirty))
        return FAIL(c, "it was not run in a committed tree");
    if (!known) return PASS(c, "no repository");
    return PASS(c, "commit %.12s, %llu changed files", commit == NULL ? "none" : commit, (ull)n_changed);
}

/* ---- parity ----
 *
 * The comparison with reference engines that bn-crossval puts into a receipt. In a statement it must say what was
 * compared, and that this was the receipt's model and prompt. In a bare predicate of another tool there is only a
 * status. */

/* Every rung passed, or was skipped by a reference that cannot do it; some passed. */
static bool rungs_agree(const bn_json *reference)
{
    const bn_json *rungs = bn_json_get(reference, "rungs");
    const char *state = NULL;
    size_t n_passed = 0;
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r)) {
        bool passed = bn_json_string(r, &state) && strcmp(state, "pass") == 0;
        if (!passed && (state == NULL || strcmp(state, "skip") != 0)) return false;
        n_passed += passed;
    }
    return bn_json_kind(rungs) == BN_JSON_OBJECT && n_passed > 0;
}

/* Each reference agreed, and together they compared as many values as are claimed. */
static bool references_agree(const struct bn_check *c, const bn_json *parity)
{
    const bn_json *list = bn_json_get(parity, "references");
    const char *result = NULL, *name = NULL;
    uint64_t compared = 0, sum = 0, of_one = 0;
    for (const bn_json *r = bn_json_first(list); r != NULL; r = bn_json_next(r)) {
        if (!bn_json_string(bn_json_get(r, "result"), &result) || strcmp(result, "agree") != 0)
            return FAIL(c, "parity is ok, and a reference's result is \"%s\"", result == NULL ? "?" : result);
        if (!bn_json_string(bn_json_get(r, "name"), &name) || !rungs_agree(r) ||
            !bn_json_u64(bn_json_get(r, "compared"), &of_one) || of_one == 0 || !bn_add_ok(sum, of_one, &sum))
            return FAIL(c, "a reference of parity without a name, a count of values, or rungs that passed");
    }
    if (bn_json_u64(bn_json_get(parity, "compared"), &compared) && compared > 0 && compared == sum)
        return true;
    return FAIL(c, "parity is ok, and %llu values were compared, %llu by its references", (ull)compared,
                (ull)sum);
}

/* A digest of the block next to the receipt's own. */
static bool same_digest(const struct bn_check *c, const bn_json *parity, const char *name, const char *path,
                        const char *what)
{
    const char *compared = NULL, *own = NULL;
    if (!bn_rule_digest(c, path, &own)) return false;
    if (bn_json_string(bn_json_get(parity, name), &compared) && strcmp(compared, own) == 0) return true;
    return FAIL(c, compared == NULL ? "parity.%s is missing" : "parity.%s is not that of this receipt: %s",
                name, what);
}

static bool comparison_holds(const struct bn_check *c, const bn_json *parity)
{
    const char *thresholds = NULL;
    uint64_t tokens = 0;
    ull prompt = c->k->result.prompt_tokens;
    if (!bn_json_text_is(parity, "schema", "bn.crossval/1"))
        return FAIL(c, "parity is ok, and does not say what was compared (schema bn.crossval/1)");
    if (!references_agree(c, parity)) return false;
    if (!same_digest(c, parity, "model_sha256", "model.sha256", "another model was compared") ||
        !same_digest(c, parity, "prompt_ids_sha256", "request.prompt_ids_sha256",
                     "another prompt was compared"))
        return false;
    if (!bn_rule_needs(c, "result.prompt_tokens")) return false;
    bool counted = bn_json_u64(bn_json_get(parity, "tokens"), &tokens) && tokens == prompt;
    bool limited =
        bn_json_string(bn_json_get(parity, "thresholds_sha256"), &thresholds) && bn_is_sha256(thresholds);
    if (!counted) return FAIL(c, "parity is of %llu tokens, the prompt has %llu", (ull)tokens, (ull)prompt);
    return limited || FAIL(c, "parity.thresholds_sha256 is not a digest");
}

bool bn_check_parity(const struct bn_check *c)
{
    const char *status = NULL;
    const bn_json *parity = bn_json_get(c->p, "parity");
    bool bare = c->bare;
    if (parity == NULL || bn_json_kind(parity) == BN_JSON_NULL) return SKIP(c, "parity is not claimed");
    if (!bn_json_string(bn_json_get(parity, "status"), &status)) return FAIL(c, "parity has no status");
    if (strcmp(status, "ok") != 0 &&
        !(bare && (strcmp(status, "rust_only") == 0 || strcmp(status, "warn") == 0)))
        return FAIL(c, "parity is \"%s\"", status);
    if (bare) return PASS(c, "%s, as another tool says", status);
    return comparison_holds(c, parity) &&
           PASS(c, "%s with %zu references", status, bn_json_size(bn_json_get(parity, "references")));
}

/* ---- replay ---- */

bool bn_check_replay(const struct bn_check *c)
{
    const struct bn_replay_result *replay = c->in->replay;
    if (replay == NULL) return SKIP(c, "not asked for (--replay)");
    if (replay->undecided != BN_EXIT_OK) return UNDECIDED(c, "%s", replay->reason);
    if (!replay->same) return FAIL(c, "%s", replay->reason);
    if (c->in->receipt->form == BN_RECEIPT_TRAINING)
        return PASS(c, "the first %zu steps gave the same bits", replay->n_tokens);
    return PASS(c, "%zu tokens came out again%s", replay->n_tokens,
                replay->chain ? ", and so did every step's digest" : "; there is no chain to compare");
}
