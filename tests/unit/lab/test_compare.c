/* SPDX-License-Identifier: MIT
 *
 * compare/: measures against values computed by hand, thresholds that limit what they say, the operation that
 * adds an error, and references that misbehave in every way the client has to notice.
 */
#include <math.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/compare/reference.h"
#include "lab/compare/trace.h"
#include "tests/unit/status.h"

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b)))) fail_msg("%.17g is not %.17g", a, b);
}

TEST(distances_are_those_of_the_formulas)
{
    const float a[] = {1, 2, 2}, b[] = {2, 0, 2};
    struct bn_metrics m;
    bn_metrics_of(&m, a, b, 3);
    assert_near(m.of[BN_METRIC_COSINE], 6 / sqrt(9.0 * 8.0));
    assert_near(m.of[BN_METRIC_MSE], 5.0 / 3);
    assert_near(m.of[BN_METRIC_NRMSE], sqrt(5.0 / 8));
    assert_near(m.of[BN_METRIC_MAX_ABS], 2);
    assert_near(m.of[BN_METRIC_RMS], 3 / sqrt(8.0));
    assert_false(m.same_bits);
    bn_metrics_of(&m, a, a, 3);
    assert_true(m.same_bits && m.of[BN_METRIC_COSINE] >= 1 - 1e-15 && m.of[BN_METRIC_KL] < 1e-15);
    const float zero[] = {0, 0, 0};
    bn_metrics_of(&m, zero, zero, 3);
    assert_true(m.of[BN_METRIC_COSINE] >= 1 && m.of[BN_METRIC_NRMSE] <= 0 && m.of[BN_METRIC_RMS] >= 1);
    bn_metrics_of(&m, a, zero, 3);
    assert_true(m.of[BN_METRIC_COSINE] <= 0 && isinf(m.of[BN_METRIC_NRMSE]));
}

TEST(divergence_is_of_softmax)
{
    /* p = softmax(b) = (1/4, 3/4), q = softmax(a) = (1/2, 1/2): a shift of all logits changes nothing. */
    const float a[] = {1000, 1000}, b[] = {0, logf(3)};
    struct bn_metrics m;
    bn_metrics_of(&m, a, b, 2);
    double p = 1 / (1 + exp((double)b[1]));
    assert_near(m.of[BN_METRIC_KL], p * log(p * 2) + (1 - p) * log((1 - p) * 2));
    assert_near(bn_log_sum_exp(a, 2), 1000 + log(2.0));
    assert_near(bn_log_softmax(b, 2, 0), log(p));
}

TEST(argmax_comes_with_its_margin)
{
    const float a[] = {5, 4, 0}, b[] = {4, 4.25f, 0};
    struct bn_metrics m;
    bn_metrics_of(&m, a, b, 3);
    assert_true(m.argmax_a == 0 && m.argmax_b == 1 && bn_argmax(b, 3) == 1);
    assert_near(m.of[BN_METRIC_ARGMAX], 0);
    assert_near(m.of[BN_METRIC_MARGIN], 0.25);
    assert_near(m.of[BN_METRIC_TIE], 0.25);
    assert_near(m.of[BN_METRIC_TOP_K], 1);
    float wide_a[20], wide_b[20];
    for (int i = 0; i < 20; i++) {
        wide_a[i] = (float)i;
        wide_b[i] = (float)(i < 12 ? i : 31 - i); /* b's best are 12 to 19 and 10, 11: all but none missing */
    }
    bn_metrics_of(&m, wide_a, wide_b, 20);
    assert_near(m.of[BN_METRIC_TOP_K], 1);
    wide_b[0] = 100; /* now 0 pushes 10 out */
    bn_metrics_of(&m, wide_a, wide_b, 20);
    assert_near(m.of[BN_METRIC_TOP_K], 0.9);
}

TEST(what_is_not_finite_measures_nothing)
{
    const float a[] = {1, 2}, b[] = {1, NAN};
    struct bn_metrics m;
    struct bn_metrics_sum sum = {0};
    bn_metrics_of(&m, a, b, 2);
    assert_true(m.bad_a == 2 && m.bad_b == 1 && isnan(m.of[BN_METRIC_COSINE]));
    bn_metrics_add(&sum, &m, 0, 2);
    assert_true(isnan(sum.of[BN_METRIC_MAX_ABS].worst));
}

#define KIND(name, gain) "\"" name "\":{\"floor\":0.01,\"gain\":" gain ",\"flip\":0}"
#define TRACE                                                                                              \
    "\"trace\":{" KIND("embd", "0") "," KIND("norm", "1") "," KIND("linear", "1") "," KIND(                \
        "rope", "1") "," KIND("attention", "1") "," KIND("activation", "1") "," KIND("sum",                \
                                                                                     "1") "," KIND("head", \
                                                                                                   "1") "}}"
#define DOC(rungs) "{\"schema\":\"bn.thresholds/1\",\"rungs\":" rungs "," TRACE

static bn_status parse(struct bn_thresholds *t, const char *text, const char *reference)
{
    return bn_thresholds_parse(t, text, strlen(text), reference, NULL);
}

TEST(limits_are_those_that_are_written)
{
    struct bn_thresholds t;
    struct bn_threshold_verdict v[BN_VERDICTS_MAX];
    struct bn_metrics_sum sum = {0};
    struct bn_metrics m;
    const float a[] = {1, 2}, b[] = {1, 3};
    const char *doc =
        DOC("{\"positions\":{\"max_abs\":{\"max\":0.5,\"max_mean\":2},\"cosine\":{\"min\":0.5}},"
            "\"decode\":{\"tie\":{\"max\":3}},\"likelihood\":{\"delta_nll\":{\"max\":0.25}}}");
    must(parse(&t, doc, NULL));
    assert_true(t.limit[BN_RUNG_DECODE][BN_METRIC_TIE][BN_MAX] >= 3 && t.growth[BN_OP_NORM].gain >= 1);
    assert_true(t.limit[BN_RUNG_LIKELIHOOD][BN_METRIC_DELTA_NLL][BN_MAX] <= 0.25);
    assert_int_equal(bn_thresholds_judge(&t, BN_RUNG_POSITIONS, &sum, v), 3);
    for (int i = 0; i < 3; i++)
        assert_false(v[i].holds); /* no rows hold no limit */
    bn_metrics_of(&m, a, b, 2);
    bn_metrics_add(&sum, &m, 7, 2);
    assert_int_equal(bn_thresholds_judge(&t, BN_RUNG_POSITIONS, &sum, v), 3);
    assert_true(v[0].metric == BN_METRIC_COSINE && v[0].holds && v[0].margin > 0.4);
    assert_true(v[1].metric == BN_METRIC_MAX_ABS && !v[1].holds && v[1].row == 7);
    assert_near(v[1].margin, -0.5);
    assert_true(v[2].is_mean && v[2].holds);
    assert_int_equal(bn_thresholds_judge(&t, BN_RUNG_FIRST, &sum, v), 0);
}

TEST(a_reference_may_have_limits_of_its_own)
{
    struct bn_thresholds t;
    const char *doc = "{\"schema\":\"bn.thresholds/1\",\"rungs\":{\"first\":{\"kl\":{\"max\":1}}},"
                      "\"references\":{\"x\":{\"first\":{\"kl\":{\"max\":0.5}}}}," TRACE;
    must(parse(&t, doc, "x"));
    assert_true(t.limit[BN_RUNG_FIRST][BN_METRIC_KL][BN_MAX] < 0.6);
    must(parse(&t, doc, "y"));
    assert_true(t.limit[BN_RUNG_FIRST][BN_METRIC_KL][BN_MAX] > 0.9);
    /* The mask has a limit in any document. */
    assert_true(t.limit[BN_RUNG_MASK][BN_METRIC_NRMSE][BN_MAX] <= BN_MASK_NRMSE);
    must(parse(&t, DOC("{\"mask\":{\"nrmse\":{\"max\":0.1}}}"), NULL));
    assert_near(t.limit[BN_RUNG_MASK][BN_METRIC_NRMSE][BN_MAX], 0.1);
}

TEST(misspelt_thresholds_are_refused)
{
    struct bn_thresholds t;
    static const char *const BAD[] = {
        "",
        "{}",
        "[]",
        DOC("{\"position\":{}}"),
        DOC("{\"positions\":{\"cosin\":{\"min\":1}}}"),
        DOC("{\"positions\":{\"cosine\":{\"minimum\":1}}}"),
        DOC("{\"positions\":{\"cosine\":{\"min\":\"1\"}}}"),
        DOC("{\"positions\":{\"cosine\":0.9}}"),
        DOC("{\"positions\":[0.9]}"),
        DOC("{\"positions\":{\"tie\":{\"max\":1}}}"),
        DOC("{\"decode\":{\"tie\":3}}"),
        DOC("{\"tokens\":{\"cosine\":{\"min\":1}}}"),
        DOC("{\"first\":{\"delta_nll\":{\"max\":1}}}"),
        DOC("{},\"references\":{\"x\":{\"frist\":{}}}"),
        "{\"schema\":\"bn.thresholds/1\",\"rungs\":{}}",
        "{\"schema\":\"bn.thresholds/2\",\"rungs\":{}," TRACE,
    };
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++)
        if (parse(&t, BAD[i], NULL) != BN_ERR_FORMAT) fail_msg("accepted: %s", BAD[i]);
}

TEST(deeper_models_are_allowed_more)
{
    struct bn_thresholds t, was;
    struct bn_buf text = {.max = 1u << 20};
    struct bn_threshold_verdict v[BN_VERDICTS_MAX];
    struct bn_metrics_sum sum = {0};
    must(bn_file_read("crossval/thresholds.json", &text, NULL));
    must(bn_thresholds_parse(&t, text.data, text.len, "bn", NULL));
    assert_true(bn_thresholds_judge(&t, BN_RUNG_FIRST, &sum, v) >= 3);
    assert_true(bn_thresholds_judge(&t, BN_RUNG_POSITIONS, &sum, v) >= 6);
    assert_true(isfinite(t.limit[BN_RUNG_LIKELIHOOD][BN_METRIC_DELTA_NLL][BN_MAX]));
    was = t;
    bn_thresholds_deepen(&t, 6);
    assert_memory_equal(&t, &was, sizeof t);
    bn_thresholds_deepen(&t, 12);
    double(*now)[BN_BOUNDS] = t.limit[BN_RUNG_POSITIONS], (*then)[BN_BOUNDS] = was.limit[BN_RUNG_POSITIONS];
    assert_near(now[BN_METRIC_NRMSE][BN_MAX], 2 * then[BN_METRIC_NRMSE][BN_MAX]);
    assert_near(1 - now[BN_METRIC_COSINE][BN_MIN], 4 * (1 - then[BN_METRIC_COSINE][BN_MIN]));
    assert_near(1 - now[BN_METRIC_TOP_K][BN_MIN_MEAN], 2 * (1 - then[BN_METRIC_TOP_K][BN_MIN_MEAN]));
    assert_true(now[BN_METRIC_RMS][BN_MAX] > then[BN_METRIC_RMS][BN_MAX] &&
                now[BN_METRIC_RMS][BN_MIN] < then[BN_METRIC_RMS][BN_MIN]);
    assert_true(now[BN_METRIC_MAX_ABS][BN_MAX] == 0); /* to the bit stays to the bit */
    assert_true(isinf(now[BN_METRIC_KL][BN_MIN]));
    assert_near(t.limit[BN_RUNG_DECODE][BN_METRIC_TIE][BN_MAX],
                was.limit[BN_RUNG_DECODE][BN_METRIC_TIE][BN_MAX]);
    bn_buf_release(&text);
}

static void put(struct bn_records *r, const char *op, int32_t layer, float x, float y)
{
    const float rows[4] = {x, y, x, y};
    must(bn_records_add(r, op, layer, 2, 2, rows, NULL));
}

/* A network whose operations all hand on what they get; `wrong` of layer 1 turns it by an angle. */
static void make_trace(struct bn_records *r, const char *wrong, const char *left_out)
{
    float y = 1;
    put(r, "embd", -1, 1, y);
    for (int layer = 0; layer < 3; layer++) {
        for (int op = BN_AT_ATTN_NORM; op <= BN_AT_FFN_RES; op++) {
            const char *name = bn_op_name((enum bn_op)op);
            if (op == BN_AT_MIX || op == BN_AT_Z || op == BN_AT_CONV || op == BN_AT_ROUTER ||
                op == BN_AT_EXPERT_WEIGHTS)
                continue; /* of other kinds of layers */
            if (layer == 1 && wrong != NULL && strcmp(name, wrong) == 0) y = 1.2f;
            if (left_out == NULL || strcmp(name, left_out) != 0) put(r, name, layer, 1, y);
        }
    }
    put(r, "output_norm", -1, 1, y);
    put(r, "logits", -1, 1, y);
}

TEST(the_operation_that_adds_the_error_is_named)
{
    static const char *const OPS[] = {
        "attn_norm", "q",       "attn_v_norm_in",   "k_rope",        "attn_out", "post_attention_norm",
        "attn_res",  "ffn_act", "ffn_down_norm_in", "post_ffw_norm", "ffn_res"};
    struct bn_thresholds t;
    must(parse(&t, DOC("{}"), NULL));
    for (size_t i = 0; i <= BN_ARRAY_LEN(OPS); i++) {
        const char *wrong = i < BN_ARRAY_LEN(OPS) ? OPS[i] : NULL;
        struct bn_records a = {0}, b = {0};
        struct bn_bisection found;
        make_trace(&a, NULL, NULL);
        make_trace(&b, wrong, NULL);
        must(bn_bisect(&found, &a, &b, t.growth, NULL));
        assert_true(found.n_layers == 3 && found.n_compared == 81 && found.n_values == 81 * 4);
        if (wrong == NULL) {
            assert_true(found.first == found.n && found.first_bits == found.n && found.n_same_bits == 81);
        } else {
            const struct bn_finding *f = &found.list[found.first];
            if (strcmp(bn_op_name(f->op), wrong) != 0) fail_msg("%s for %s", bn_op_name(f->op), wrong);
            assert_true(f->layer == 1 && f->found == BN_FOUND_OUT && found.first_bits == found.first);
            assert_false(f->same_bits);
        }
        bn_bisection_release(&found);
        bn_records_release(&a);
        bn_records_release(&b);
    }
}

TEST(what_is_left_out_is_counted_and_bounds_what_follows)
{
    struct bn_thresholds t;
    struct bn_records a = {0}, b = {0}, none = {0};
    struct bn_bisection found;
    must(parse(&t, DOC("{}"), NULL));
    make_trace(&a, NULL, NULL);
    make_trace(&b, "attn_output_norm_in", "attn_output_norm_in");
    must(bn_bisect(&found, &a, &b, t.growth, NULL));
    assert_true(found.n_absent == 3 && found.n_compared == 78);
    assert_string_equal(bn_op_name(found.list[found.first].op), "attn_o");
    bn_bisection_release(&found);
    must(bn_bisect(&found, &a, &none, t.growth, NULL));
    assert_true(found.n_compared == 0 && found.n_values == 0 && found.n_absent == 81);
    bn_bisection_release(&found);
    put(&b, "q", 0, 1, 1); /* twice: too many rows */
    must(bn_bisect(&found, &a, &b, t.growth, NULL));
    assert_int_equal(found.list[found.first].found, BN_FOUND_SHAPE);
    bn_bisection_release(&found);
    bn_records_release(&a);
    bn_records_release(&b);
}

#define HELLO                                                                                               \
    "read x; echo '{\"id\":1,\"ok\":true,\"protocol\":\"bn.reference/1\",\"name\":\"t\",\"version\":\"1\"," \
    "\"commit\":null,\"capabilities\":[\"logits\",\"tokenize\",\"trace\"]}';"
#define OPEN "read x; echo '{\"id\":2,\"ok\":true,\"n_vocab\":2,\"n_ctx\":8,\"arch\":null}';"
#define LOGITS "read x; echo '{\"id\":3,\"ok\":true,\"rows\":1,\"cols\":2,\"floats\":2}';"

/* Starts, opens, asks for the logits of one token, ends: the status of the first step that fails. */
static bn_status talk(const char *command, uint64_t timeout_s, bn_error *e, float *first)
{
    struct bn_reference *ref = NULL;
    struct bn_reference_options options = {.command = command, .timeout_ns = timeout_s * 1000000000u};
    const int32_t id = 1;
    float *logits = NULL;
    *e = (bn_error){0};
    bn_status status = bn_reference_start(&ref, &options, e);
    if (status == BN_OK) status = bn_reference_open(ref, "m.gguf", 1, e);
    if (status == BN_OK) status = bn_reference_logits(ref, &id, 1, &logits, e);
    if (status == BN_OK && first != NULL) *first = logits[1];
    if (status == BN_OK) status = bn_reference_finish(ref, e);
    bn_free(logits);
    bn_reference_close(ref);
    return status;
}

TEST(a_sound_reference_is_heard)
{
    float x = 0;
    bn_status status = talk(HELLO OPEN LOGITS "printf '\\0\\0\\0\\0\\0\\0\\200\\077'; read x; "
                                              "echo '{\"id\":4,\"ok\":true}'; echo noise >&2",
                            600, &err, &x);
    if (status != BN_OK) fail_msg("%s", err.msg);
    assert_true(x >= 1 && x <= 1);
}

TEST(misbehaving_references_fail)
{
    static const struct {
        const char *command, *says;
        bn_status status;
    } BAD[] = {
        {"/no/such/program", "could not be started", BN_ERR_NOT_FOUND},
        {"sleep 1000", "time limit", BN_ERR_MISMATCH},
        {"trap '' TERM PIPE; sleep 1000 & sleep 1000", "time limit", BN_ERR_MISMATCH},
        {"echo '[]'", "not a JSON object", BN_ERR_MISMATCH},
        {"echo '{\"id\":7,\"ok\":true}'; sleep 1", "wrong id", BN_ERR_MISMATCH},
        {"echo '{\"ok\":true}'; sleep 1", "wrong id", BN_ERR_MISMATCH},
        {"echo '{\"id\":1}'; sleep 1", "without \"ok\"", BN_ERR_MISMATCH},
        {"echo '{\"id\":1,\"ok\":true,\"protocol\":\"other\"}'; sleep 1", "does not speak", BN_ERR_MISMATCH},
        {"read x; printf '{\"id\":1,'", "inside a line", BN_ERR_MISMATCH},
        {"tr '\\0' x </dev/zero", "sent a line of more than", BN_ERR_MISMATCH},
        {"exec <&-; exec >&-; sleep 1", "closed its output", BN_ERR_MISMATCH},
        {HELLO "read x; echo '{\"id\":2,\"ok\":true}'; sleep 1", "has no n_vocab", BN_ERR_MISMATCH},
        {HELLO "read x; echo '{\"id\":2,\"ok\":false,\"error\":\"gone\",\"kind\":\"not_found\"}'; sleep 1",
         "refused: gone", BN_ERR_NOT_FOUND},
        {HELLO "read x; echo '{\"id\":2,\"ok\":false}'; sleep 1", "without saying why", BN_ERR_MISMATCH},
        {HELLO OPEN "read x; echo '{\"id\":3,\"ok\":true,\"rows\":2,\"cols\":2,\"floats\":4}'; sleep 1",
         "wrong number of rows", BN_ERR_MISMATCH},
        {HELLO OPEN "read x; echo '{\"id\":3,\"ok\":true,\"rows\":1,\"cols\":2,\"floats\":3}'; sleep 1",
         "is not rows times columns", BN_ERR_MISMATCH},
        {HELLO OPEN LOGITS "printf 12345678; read x; exit 2", "status 2", BN_ERR_MISMATCH},
        {HELLO OPEN LOGITS "printf 12345678; read x; echo '{\"id\":4,\"ok\":true}'; exit 2", "status 2",
         BN_ERR_MISMATCH},
        {HELLO OPEN LOGITS "printf 12345678; read x; echo '{\"id\":4,\"ok\":true}'; echo more", "sent more",
         BN_ERR_MISMATCH},
        {HELLO OPEN LOGITS "printf 12345678; read x; echo '{\"id\":4,\"ok\":true}'; sleep 1000",
         "did not end", BN_ERR_MISMATCH},
    };
    uint64_t start = bn_clock_ns();
    for (size_t i = 0; i < BN_ARRAY_LEN(BAD); i++) {
        bool is_late =
            strstr(BAD[i].says, "time limit") != NULL || strstr(BAD[i].says, "did not end") != NULL;
        bn_status status = talk(BAD[i].command, is_late ? 3 : 600, &err, NULL);
        if (status != BAD[i].status || strstr(err.msg, BAD[i].says) == NULL)
            fail_msg("%s: %s: %s", BAD[i].command, bn_status_name(status), err.msg);
    }
    /* The test did not wait for the end of a sleep. */
    assert_true(bn_clock_ns() - start < 1000000000000u);
}

TEST(unsupported_is_no_failure)
{
    struct bn_reference *ref = NULL;
    struct bn_reference_options options = {
        .command =
            HELLO OPEN "read x; echo '{\"id\":3,\"ok\":false,\"error\":\"no\",\"kind\":\"unsupported\"}';"
                       "read x; echo '{\"id\":4,\"ok\":true,\"tokens\":[5,6]}'; read x",
        .timeout_ns = 600000000000u};
    int32_t *ids = NULL;
    size_t n = 0;
    must(bn_reference_start(&ref, &options, NULL));
    must(bn_reference_open(ref, "m", 1, NULL));
    refused(bn_reference_tokenize(ref, "a", 1, &ids, &n, NULL), BN_ERR_UNSUPPORTED);
    must(bn_reference_tokenize(ref, "a", 1, &ids, &n, NULL));
    assert_true(n == 2 && ids[0] == 5 && ids[1] == 6);
    bn_free(ids);
    bn_reference_close(ref);
}
