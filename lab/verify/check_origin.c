/* SPDX-License-Identifier: MIT
 *
 * Rules about the origin of a receipt, about parity with references, and about its replay.
 */
#include "lab/verify/checks.h"

bool bn_check_model_allowed(const struct bn_check *c)
{
    const char *digest = NULL;
    size_t n = 0;
    (void)bn_receipt_policy_lists(c->in->policy, "model_sha256", "", &n);
    if (n == 0) return bn_rule_skip(c, "the policy lists no models");
    if (!bn_json_string(bn_json_path(c->p, "model.sha256"), &digest))
        return bn_rule_fail(c, "model.sha256 is missing");
    if (!bn_receipt_policy_lists(c->in->policy, "model_sha256", digest, NULL))
        return bn_rule_fail(c, "the model is none of the %zu that the policy lists", n);
    return bn_rule_pass(c, "one of %zu", n);
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
    if (id == NULL || flag == NULL) return bn_rule_fail(c, "commit or dirty is missing");
    bool id_ok = bn_json_kind(id) == BN_JSON_NULL || (bn_json_string(id, commit) && is_commit(*commit));
    bool flag_ok = bn_json_kind(flag) == BN_JSON_NULL || bn_json_bool(flag, dirty);
    if (!id_ok || !flag_ok) bn_rule_fail(c, "%s is malformed", id_ok ? "dirty" : "commit");
    return id_ok && flag_ok;
}

bool bn_check_program(const struct bn_check *c)
{
    const char *commit = NULL, *digest = NULL;
    bool dirty;
    size_t n = 0;
    const bn_json *program = bn_rule_claim(c, "resolved.program");
    (void)bn_receipt_policy_lists(c->in->policy, "program_sha256", "", &n);
    bool demanded = n > 0 || c->in->policy->require_clean_program;
    if (program == NULL || !read_stamp(c, program, &commit, &dirty)) {
        if (demanded) c->out->verdict = BN_VERDICT_FAIL;
        return false;
    }
    (void)bn_json_string(bn_json_get(program, "sha256"), &digest);
    if (digest != NULL && !bn_is_sha256(digest))
        return bn_rule_fail(c, "resolved.program.sha256 is malformed");
    if (n > 0 && (digest == NULL || !bn_receipt_policy_lists(c->in->policy, "program_sha256", digest, NULL)))
        return bn_rule_fail(c, "the program is none of the %zu that the policy lists", n);
    if (c->in->policy->require_clean_program && (commit == NULL || dirty))
        return bn_rule_fail(c, "the program was not built from a committed tree");
    return bn_rule_pass(c, "commit %.12s%s", commit == NULL ? "unknown" : commit,
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
        return bn_rule_fail(c, "git.dirty and git.changed_files contradict each other");
    if (c->in->policy->require_clean_git && (commit == NULL || dirty))
        return bn_rule_fail(c, "it was not run in a committed tree");
    if (!known) return bn_rule_pass(c, "no repository");
    return bn_rule_pass(c, "commit %.12s, %llu changed files", commit == NULL ? "none" : commit,
                        (ull)n_changed);
}

/* ---- parity ----
 *
 * The comparison with reference engines that bn-crossval puts into a receipt. In a statement it must say what was
 * compared, and that this was the receipt's model and prompt. In a bare predicate of another tool there is only a
 * status. */

/* Every rung passed, or was skipped by a reference that cannot do it. */
static bool rungs_agree(const bn_json *reference)
{
    const bn_json *rungs = bn_json_get(reference, "rungs");
    const char *state = NULL;
    for (const bn_json *r = bn_json_first(rungs); r != NULL; r = bn_json_next(r))
        if (!bn_json_string(r, &state) || (strcmp(state, "pass") != 0 && strcmp(state, "skip") != 0))
            return false;
    return bn_json_kind(rungs) == BN_JSON_OBJECT;
}

/* Each reference agreed, and together they compared as many values as are claimed. */
static bool references_agree(const struct bn_check *c, const bn_json *parity)
{
    const bn_json *list = bn_json_get(parity, "references");
    const char *result = NULL, *name = NULL;
    uint64_t compared = 0, sum = 0, of_one = 0;
    char quoted[80];
    for (const bn_json *r = bn_json_first(list); r != NULL; r = bn_json_next(r)) {
        if (!bn_json_string(bn_json_get(r, "result"), &result) || strcmp(result, "agree") != 0)
            return bn_rule_fail(c, "parity is ok, and a reference's result is \"%s\"",
                                bn_rule_quote(quoted, result == NULL ? "?" : result));
        if (!bn_json_string(bn_json_get(r, "name"), &name) || !rungs_agree(r) ||
            !bn_json_u64(bn_json_get(r, "compared"), &of_one) || of_one == 0 || !bn_add_ok(sum, of_one, &sum))
            return bn_rule_fail(
                c, "a reference of parity without a name, a count of values, or rungs that passed");
    }
    if (bn_json_u64(bn_json_get(parity, "compared"), &compared) && compared > 0 && compared == sum)
        return true;
    return bn_rule_fail(c, "parity is ok, and %llu values were compared, %llu by its references",
                        (ull)compared, (ull)sum);
}

/* A digest of the block next to the receipt's own. */
static bool same_digest(const struct bn_check *c, const bn_json *parity, const char *name, const char *path,
                        const char *what)
{
    const char *compared = NULL, *own = NULL;
    if (!bn_rule_digest(c, path, &own)) return false;
    if (bn_json_string(bn_json_get(parity, name), &compared) && strcmp(compared, own) == 0) return true;
    return bn_rule_fail(
        c, compared == NULL ? "parity.%s is missing" : "parity.%s is not that of this receipt: %s", name,
        what);
}

static bool comparison_holds(const struct bn_check *c, const bn_json *parity)
{
    const char *thresholds = NULL;
    uint64_t tokens = 0;
    ull prompt = c->k->result.prompt_tokens;
    if (!bn_json_text_is(parity, "schema", "bn.crossval/1"))
        return bn_rule_fail(c, "parity is ok, and does not say what was compared (schema bn.crossval/1)");
    if (!references_agree(c, parity)) return false;
    if (!same_digest(c, parity, "model_sha256", "model.sha256", "another model was compared") ||
        !same_digest(c, parity, "prompt_ids_sha256", "request.prompt_ids_sha256",
                     "another prompt was compared"))
        return false;
    if (!bn_rule_needs(c, "result.prompt_tokens")) return false;
    bool counted = bn_json_u64(bn_json_get(parity, "tokens"), &tokens) && tokens == prompt;
    bool limited =
        bn_json_string(bn_json_get(parity, "thresholds_sha256"), &thresholds) && bn_is_sha256(thresholds);
    if (!counted)
        return bn_rule_fail(c, "parity is of %llu tokens, the prompt has %llu", (ull)tokens, (ull)prompt);
    return limited || bn_rule_fail(c, "parity.thresholds_sha256 is not a digest");
}

bool bn_check_parity(const struct bn_check *c)
{
    const char *status = NULL;
    char quoted[80];
    const bn_json *parity = bn_json_get(c->p, "parity");
    bool bare = c->bare;
    if (parity == NULL || bn_json_kind(parity) == BN_JSON_NULL)
        return bn_rule_skip(c, "parity is not claimed");
    if (!bn_json_string(bn_json_get(parity, "status"), &status))
        return bn_rule_fail(c, "parity has no status");
    if (strcmp(status, "ok") != 0 &&
        !(bare && (strcmp(status, "rust_only") == 0 || strcmp(status, "warn") == 0)))
        return bn_rule_fail(c, "parity is \"%s\"", bn_rule_quote(quoted, status));
    if (bare) return bn_rule_pass(c, "%s, as another tool says", status);
    return comparison_holds(c, parity) &&
           bn_rule_pass(c, "%s with %zu references", status, bn_json_size(bn_json_get(parity, "references")));
}

/* ---- replay ---- */

bool bn_check_replay(const struct bn_check *c)
{
    const struct bn_replay_result *replay = c->in->replay;
    if (replay == NULL) return bn_rule_skip(c, "not asked for (--replay)");
    if (replay->undecided != BN_EXIT_OK) return bn_rule_undecided(c, "%s", replay->reason);
    if (!replay->same) return bn_rule_fail(c, "%s", replay->reason);
    if (c->in->receipt->form == BN_RECEIPT_TRAINING)
        return bn_rule_pass(c, "the first %zu steps gave the same bits", replay->n_tokens);
    return bn_rule_pass(c, "%zu tokens came out again%s", replay->n_tokens,
                        replay->chain ? ", and so did every step's digest"
                                      : "; there is no chain to compare");
}
