/* SPDX-License-Identifier: MIT
 *
 * What was found, as JUnit XML: a test suite for each reference, a test case for each rung and for the trace.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "tools/crossval/crossval.h"

/* As the value of an attribute; control characters, which XML cannot hold, become question marks. */
static void put_text(struct bn_buf *out, const char *text)
{
    for (const char *c = text; *c != '\0';) {
        size_t n = bn_utf8_length(c, strlen(c));
        if (*c == '&')
            bn_buf_puts(out, "&amp;");
        else if (*c == '<')
            bn_buf_puts(out, "&lt;");
        else if (*c == '"')
            bn_buf_puts(out, "&quot;");
        else if (n == 0 || (unsigned char)*c < 0x20)
            bn_buf_putc(out, '?');
        else
            bn_buf_append(out, c, n);
        c += n > 0 ? n : 1;
    }
}

static void put_case(struct bn_buf *out, const struct bn_xref *ref, const char *name, enum bn_xstate state,
                     const char *reason)
{
    static const char *const WORDS[] = {"", "", "failure", "skipped", "error"};
    bn_buf_puts(out, "    <testcase classname=\"");
    put_text(out, bn_xref_label(ref));
    bn_buf_printf(out, "\" name=\"%s\"", name);
    if (state == BN_X_PASS) {
        bn_buf_puts(out, "/>\n");
        return;
    }
    bn_buf_printf(out, "><%s message=\"", WORDS[state]);
    put_text(out, reason);
    bn_buf_puts(out, "\"/></testcase>\n");
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

/* A reference that failed outside any rung, or with which nothing was compared, is a case of its own. */
static void put_suite(struct bn_buf *out, const struct bn_xref *ref)
{
    struct counts c = {0};
    enum bn_xstate session = ref->broken ? BN_X_ERROR : bn_xref_compared(ref) > 0 ? BN_X_PASS : BN_X_FAIL;
    count(&c, session);
    count(&c, ref->traced);
    for (size_t r = 0; r < BN_RUNG_COUNT; r++)
        count(&c, ref->rungs[r].state);
    bn_buf_puts(out, "  <testsuite name=\"");
    put_text(out, bn_xref_label(ref));
    bn_buf_printf(out, "\" tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\">\n", c.all,
                  c.n[BN_X_FAIL], c.n[BN_X_ERROR], c.n[BN_X_SKIP]);
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
