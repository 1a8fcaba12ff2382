/* SPDX-License-Identifier: MIT
 *
 * The result as JUnit XML: a test suite for each reference, a test case for each rung and for the trace.
 */
#include "base/file.h"
#include "lab/report/html.h"
#include "tools/crossval/crossval.h"

static void put_case(struct bn_buf *out, const struct bn_xref *ref, const char *name, enum bn_xstate state,
                     const char *reason)
{
    static const char *const WORDS[] = {"", "", "failure", "skipped", "error"};
    bn_html(out, "    <testcase classname=\"%s\" name=\"%s\"", bn_xref_label(ref), name);
    if (state == BN_X_PASS) {
        bn_html(out, "/>\n");
        return;
    }
    bn_html(out, "><%s message=\"%s\"/></testcase>\n", WORDS[state], reason);
}

struct counts {
    unsigned n[BN_X_ERROR + 1], all;
};

static void count(struct counts *c, enum bn_xstate state)
{
    if (state == BN_X_NONE) return;
    c->n[state]++;
    c->all++;
}

/* The case "session" fails when the reference failed outside of a rung or nothing was compared. */
static void put_suite(struct bn_buf *out, const struct bn_xref *ref)
{
    struct counts c = {0};
    enum bn_xstate session = ref->broken ? BN_X_ERROR : bn_xref_compared(ref) > 0 ? BN_X_PASS : BN_X_FAIL;
    count(&c, session);
    count(&c, ref->traced);
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        count(&c, ref->rungs[r].state);
    bn_html(out, "  <testsuite name=\"%s\" tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\">\n",
            bn_xref_label(ref), c.all, c.n[BN_X_FAIL], c.n[BN_X_ERROR], c.n[BN_X_SKIP]);
    put_case(out, ref, "session", session, ref->broken ? ref->failure.msg : "nothing was compared");
    for (unsigned r = 0; r < BN_RUNG_COUNT; r++)
        if (ref->rungs[r].state != BN_X_NONE)
            put_case(out, ref, bn_rung_name((enum bn_rung)r), ref->rungs[r].state, ref->rungs[r].reason);
    if (ref->traced != BN_X_NONE) put_case(out, ref, "trace", ref->traced, ref->trace_reason);
    bn_buf_puts(out, "  </testsuite>\n");
}

bn_status bn_crossval_write_junit(const struct bn_crossval *x, const char *path, bn_error *err)
{
    struct bn_buf out = {.max = 1u << 20};
    bn_buf_puts(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"bn-crossval\">\n");
    for (size_t i = 0; i < x->n_refs; i++)
        put_suite(&out, &x->refs[i]);
    bn_buf_puts(&out, "</testsuites>\n");
    bn_status status = bn_buf_check(&out, err);
    if (status == BN_OK) status = bn_file_write_atomic(path, out.data, out.len, err);
    bn_buf_release(&out);
    return status;
}
