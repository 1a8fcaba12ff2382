/* SPDX-License-Identifier: MIT
 *
 * Rules about the origin of a receipt, and about its replay.
 */
#include "lab/verify/checks.h"

bool bn_check_model_allowed(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *digest = NULL;
    size_t n = 0;
    (void)bn_receipt_policy_lists(in->policy, "model_sha256", "", &n);
    if (n == 0) return bn_rule_skip(out, "the policy lists no models");
    if (!bn_json_string(bn_json_path(in->receipt->predicate, "model.sha256"), &digest))
        return bn_rule_fail(out, "model.sha256 is missing");
    if (!bn_receipt_policy_lists(in->policy, "model_sha256", digest, NULL))
        return bn_rule_fail(out, "the model is none of the %zu that the policy lists", n);
    return bn_rule_pass(out, "one of %zu", n);
}

static bool is_commit(const char *text)
{
    size_t n = strlen(text);
    return (n == 40 || n == 64) && strspn(text, "0123456789abcdef") == n;
}

/* commit and dirty of an object: null, or a commit's digits and true or false. */
static bool read_stamp(const bn_json *object, const char **commit, bool *dirty, struct bn_rule_result *out)
{
    const bn_json *id = bn_json_get(object, "commit"), *flag = bn_json_get(object, "dirty");
    *commit = NULL;
    *dirty = true;
    if (id == NULL || flag == NULL) return bn_rule_fail(out, "commit or dirty is missing");
    bool id_ok = bn_json_kind(id) == BN_JSON_NULL || (bn_json_string(id, commit) && is_commit(*commit));
    bool flag_ok = bn_json_kind(flag) == BN_JSON_NULL || bn_json_bool(flag, dirty);
    if (!id_ok || !flag_ok) bn_rule_fail(out, "%s is malformed", id_ok ? "dirty" : "commit");
    return id_ok && flag_ok;
}

bool bn_check_program(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *commit = NULL, *digest = NULL;
    bool dirty;
    size_t n = 0;
    const bn_json *program = bn_rule_claim(in, "resolved.program", out);
    (void)bn_receipt_policy_lists(in->policy, "program_sha256", "", &n);
    bool demanded = n > 0 || in->policy->require_clean_program;
    if (program == NULL || !read_stamp(program, &commit, &dirty, out)) {
        if (demanded) out->verdict = BN_VERDICT_FAIL;
        return false;
    }
    (void)bn_json_string(bn_json_get(program, "sha256"), &digest);
    if (digest != NULL && !bn_is_sha256(digest))
        return bn_rule_fail(out, "resolved.program.sha256 is malformed");
    if (n > 0 && (digest == NULL || !bn_receipt_policy_lists(in->policy, "program_sha256", digest, NULL)))
        return bn_rule_fail(out, "the program is none of the %zu that the policy lists", n);
    if (in->policy->require_clean_program && (commit == NULL || dirty))
        return bn_rule_fail(out, "the program was not built from a committed tree");
    return bn_rule_pass(out, "commit %.12s%s", commit == NULL ? "unknown" : commit,
                        commit != NULL && dirty ? " with changes" : "");
}

bool bn_check_git(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const char *commit = NULL;
    bool dirty;
    uint64_t n_changed = 0;
    const bn_json *git = bn_rule_claim(in, "git", out);
    if (git == NULL || !read_stamp(git, &commit, &dirty, out)) {
        if (in->policy->require_clean_git) out->verdict = BN_VERDICT_FAIL;
        return false;
    }
    bool known = bn_json_kind(bn_json_get(git, "dirty")) == BN_JSON_BOOL;
    bool counted = bn_json_u64(bn_json_get(git, "changed_files"), &n_changed);
    if (known != counted || (counted && dirty != (n_changed > 0)))
        return bn_rule_fail(out, "git.dirty and git.changed_files contradict each other");
    if (in->policy->require_clean_git && (commit == NULL || dirty))
        return bn_rule_fail(out, "it was not run in a committed tree");
    if (!known) return bn_rule_pass(out, "no repository");
    return bn_rule_pass(out, "commit %.12s, %llu changed files", commit == NULL ? "none" : commit,
                        (unsigned long long)n_changed);
}

bool bn_check_replay(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const struct bn_replay_result *replay = in->replay;
    if (replay == NULL) return bn_rule_skip(out, "not asked for (--replay)");
    if (!replay->same) return bn_rule_fail(out, "%s", replay->reason);
    if (in->receipt->form == BN_RECEIPT_TRAINING)
        return bn_rule_pass(out, "the first %zu steps gave the same bits", replay->n_tokens);
    return bn_rule_pass(out, "%zu tokens came out again%s", replay->n_tokens,
                        replay->chain ? ", and so did every step's digest"
                                      : "; there is no chain to compare");
}
