/* SPDX-License-Identifier: MIT
 *
 * Rules about the record of a training run.
 */
#include <math.h>

#include "lab/verify/checks.h"
#include "lab/verify/training.h"

typedef unsigned long long ull;

/* ---- files ---- */

/* A claimed digest next to the one that was found; *out is set. */
static bool same_digest(const struct bn_rules_input *in, const char *what, const char *path,
                        const char *found, struct bn_rule_result *out)
{
    const char *claimed = NULL;
    const bn_json *value = bn_json_path(in->receipt->predicate, path);
    if (value != NULL &&
        (bn_json_kind(value) == BN_JSON_NULL || bn_json_text_is(in->receipt->predicate, path, "")))
        return bn_rule_skip(out, "the run wrote no %s", what);
    if (!bn_json_string(value, &claimed) || !bn_is_sha256(claimed))
        return bn_rule_fail(out, "%s is not 64 hexadecimal digits in lower case", path);
    if (found[0] == '\0') return bn_rule_skip(out, "the %s is not at hand", what);
    if (strcmp(found, claimed) != 0)
        return bn_rule_fail(out, "the %s has sha256 %.16s..., the record has %.16s...", what, found, claimed);
    return bn_rule_pass(out, "%.16s...", found);
}

bool bn_check_training_model(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    return same_digest(in, "model", "result.model_sha256", in->files != NULL ? in->files->model_sha256 : "",
                       out);
}

bool bn_check_training_checkpoint(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    return same_digest(in, "checkpoint", "result.checkpoint_sha256",
                       in->files != NULL ? in->files->checkpoint_sha256 : "", out);
}

bool bn_check_training_texts(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const bn_json *data = bn_json_get(in->receipt->predicate, "data");
    if (bn_json_kind(data) != BN_JSON_ARRAY || bn_json_find(data, "role", "text") == NULL)
        return bn_rule_fail(out, "data names no text");
    for (const bn_json *o = bn_json_first(data); o != NULL; o = bn_json_next(o))
        if (!bn_is_sha256(bn_json_text_of(o, "sha256")) || bn_json_text_of(o, "path")[0] == '\0')
            return bn_rule_fail(out, "data has a text without path or sha256");
    if (in->files == NULL || in->files->n_texts_here == 0)
        return bn_rule_skip(out, "none of %zu texts is at hand", bn_json_size(data));
    if (in->files->changed[0] != '\0') return bn_rule_fail(out, "%s", in->files->changed);
    return bn_rule_pass(out, "%zu of %zu texts are at hand", in->files->n_texts_here, in->files->n_texts);
}

/* ---- numbers ---- */

static bool number(const struct bn_rules_input *in, const char *path, uint64_t *value,
                   struct bn_rule_result *out)
{
    if (bn_json_u64(bn_json_path(in->receipt->predicate, path), value)) return true;
    return bn_rule_fail(out, "%s is missing, or not a whole number", path);
}

bool bn_check_training_steps(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    static const char *const FACTORS[] = {"settings.micro_batches", "settings.slices",
                                          "settings.windows_per_slice", "settings.context"};
    uint64_t steps, step, tokens, factor, each = 1, width, heads, head_width;
    bool complete = false;
    if (!number(in, "settings.steps", &steps, out) || !number(in, "result.step", &step, out) ||
        !number(in, "result.tokens", &tokens, out) || !number(in, "settings.width", &width, out) ||
        !number(in, "settings.heads", &heads, out) || !number(in, "settings.head_width", &head_width, out))
        return false;
    for (size_t i = 0; i < BN_ARRAY_LEN(FACTORS); i++) {
        if (!number(in, FACTORS[i], &factor, out)) return false;
        if (!bn_mul_ok(each, factor, &each)) return bn_rule_fail(out, "%s is %llu", FACTORS[i], (ull)factor);
    }
    if (!bn_mul_ok(each, step, &each) || each != tokens)
        return bn_rule_fail(out, "result.tokens is %llu, %llu steps have another number", (ull)tokens,
                            (ull)step);
    if (width == 0 || heads == 0 || width / heads != head_width)
        return bn_rule_fail(out, "%llu heads of %llu in a width of %llu", (ull)heads, (ull)head_width,
                            (ull)width);
    bool known = bn_json_bool(bn_json_path(in->receipt->predicate, "result.complete"), &complete);
    if (!known || step > steps || complete != (step == steps))
        return bn_rule_fail(out, "result.complete contradicts step %llu of %llu", (ull)step, (ull)steps);
    if (!complete) return bn_rule_fail(out, "the run ended after step %llu of %llu", (ull)step, (ull)steps);
    return bn_rule_pass(out, "%llu steps, %llu tokens", (ull)steps, (ull)tokens);
}

bool bn_check_training_losses(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const bn_json *losses = bn_json_get(in->receipt->predicate, "losses");
    uint64_t step = 0, last, claimed;
    double loss = NAN, norm;
    if (!number(in, "result.step", &last, out)) return false;
    if (bn_json_kind(losses) != BN_JSON_ARRAY) return bn_rule_fail(out, "losses is missing");
    for (const bn_json *o = bn_json_first(losses); o != NULL; o = bn_json_next(o)) {
        if (!bn_json_u64(bn_json_get(o, "step"), &claimed) || claimed != ++step)
            return bn_rule_fail(out, "losses has no step %llu where it should be", (ull)step);
        if (!bn_json_number(bn_json_get(o, "loss"), &loss) || !(loss > 0) || !isfinite(loss))
            return bn_rule_fail(out, "the loss of step %llu is not a positive number", (ull)step);
        if (!bn_json_number(bn_json_get(o, "gradient_norm"), &norm) || !(norm >= 0) || !isfinite(norm))
            return bn_rule_fail(out, "the gradient norm of step %llu is not a number", (ull)step);
    }
    if (step != last)
        return bn_rule_fail(out, "losses has %llu steps, result.step is %llu", (ull)step, (ull)last);
    return bn_rule_pass(out, "%llu steps, the last loss is %.4f", (ull)step, loss);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Tokens and bytes of the validation texts. */
static void validation_size(const bn_json *data, double *tokens, double *bytes)
{
    *tokens = *bytes = 0;
    for (const bn_json *o = bn_json_first(data); o != NULL; o = bn_json_next(o)) {
        if (!bn_json_text_is(o, "role", "validation")) continue;
        *tokens += bn_json_number_of(o, "times") * bn_json_number_of(o, "tokens");
        *bytes += bn_json_number_of(o, "times") * bn_json_number_of(o, "bytes");
    }
}

bool bn_check_training_validations(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    const bn_json *list = bn_json_get(in->receipt->predicate, "validations");
    double tokens, bytes, bits = 0;
    uint64_t step, last, before = 0;
    if (!number(in, "result.step", &last, out)) return false;
    validation_size(bn_json_get(in->receipt->predicate, "data"), &tokens, &bytes);
    if (bn_json_size(list) == 0 && bytes == 0) return bn_rule_skip(out, "the run had no validation text");
    if (bn_json_size(list) == 0) return bn_rule_fail(out, "validations is missing or empty");
    for (const bn_json *o = bn_json_first(list); o != NULL; o = bn_json_next(o)) {
        double loss = bn_json_number_of(o, "loss");
        bits = bn_json_number_of(o, "bits_per_byte");
        if (!bn_json_u64(bn_json_get(o, "step"), &step) || step > last || (before > 0 && step <= before))
            return bn_rule_fail(out, "validations are not in the order of steps");
        before = step;
        if (!(loss > 0) || !near(bn_json_number_of(o, "perplexity"), exp(loss)))
            return bn_rule_fail(out, "the perplexity after step %llu does not follow from the loss",
                                (ull)step);
        if (!near(bits, loss * tokens / bytes / log(2.0)))
            return bn_rule_fail(out, "the bits per byte after step %llu do not follow from the loss",
                                (ull)step);
    }
    return bn_rule_pass(out, "%zu validations, the last one %.4f bits per byte", bn_json_size(list), bits);
}

/* ---- origin ---- */

/* Whether a policy's list, unless it is empty, has the text at this path. */
static bool listed(const struct bn_rules_input *in, const char *list, const char *path)
{
    size_t n = 0;
    const char *text = bn_json_text_of(in->receipt->predicate, path);
    return bn_receipt_policy_lists(in->policy, list, text, &n) || n == 0;
}

static bool is_clean(const struct bn_rules_input *in, const char *commit, const char *dirty)
{
    bool changed = true;
    return bn_json_text_of(in->receipt->predicate, commit)[0] != '\0' &&
           bn_json_bool(bn_json_path(in->receipt->predicate, dirty), &changed) && !changed;
}

bool bn_check_training_origin(const struct bn_rules_input *in, struct bn_rule_result *out)
{
    if (!listed(in, "model_sha256", "result.model_sha256"))
        return bn_rule_fail(out, "the model is none of those that the policy lists");
    if (!listed(in, "program_sha256", "program.binary_sha256"))
        return bn_rule_fail(out, "the program is none of those that the policy lists");
    if (in->policy->require_clean_program && !is_clean(in, "program.commit", "program.dirty"))
        return bn_rule_fail(out, "the program was not built from a committed tree");
    if (in->policy->require_clean_git && !is_clean(in, "git.commit", "git.dirty"))
        return bn_rule_fail(out, "it was not run in a committed tree");
    char quoted[80];
    return bn_rule_pass(out, "commit %.12s",
                        bn_rule_quote(quoted, bn_json_text_of(in->receipt->predicate, "program.commit")));
}
