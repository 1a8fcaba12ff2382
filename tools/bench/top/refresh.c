/* SPDX-License-Identifier: MIT
 *
 * Finds the process that is shown, and reads it again and again.
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/bench/top/top.h"

const char *const bn_top_state_names[] = {"running", "idle", "ended"};

#define NONE_HINT "start a program with --live, for example: bn-serve --live"

/* The only program that publishes. */
static bn_status find_only(char path[BN_LIVE_PATH], bn_error *err)
{
    uint32_t *list = NULL;
    size_t n = 0;
    char name[16], others[128] = "";
    BN_TRY(bn_live_list(&list, &n, err));
    for (size_t i = 0, used = 0; i < n && used + 12 < sizeof others; i++)
        used += (size_t)snprintf(others + used, sizeof others - used, " %u", list[i]);
    snprintf(name, sizeof name, "%u", n == 1 ? list[0] : 0);
    bn_free(list);
    if (n == 1) return bn_live_path(path, name, false, err);
    if (n == 0)
        return bn_hint(bn_fail(err, BN_ERR_NOT_FOUND, "no running program publishes its profile"), err,
                       NONE_HINT);
    return bn_hint(bn_fail(err, BN_ERR_ARG, "%zu programs publish their profile:%s", n, others), err,
                   "bn-bench top PID; bn-bench top --list names them");
}

static bn_status find_file(char path[BN_LIVE_PATH], const char *name, bn_error *err)
{
    if (name == NULL) return find_only(path, err);
    if (name[0] != '\0' && strspn(name, "0123456789") == strlen(name))
        return bn_live_path(path, name, false, err);
    if (strlen(name) >= BN_LIVE_PATH) return bn_fail(err, BN_ERR_ARG, "the path is too long");
    memcpy(path, name, strlen(name) + 1);
    return BN_OK;
}

bn_status bn_top_open(struct bn_top *top, bn_error *err)
{
    const struct bn_args *args = top->args;
    char path[BN_LIVE_PATH];
    if (top->o->budget != NULL) BN_TRY(bn_top_budget_read(&top->budget, top->o->budget, err));
    top->now = bn_alloc(1, sizeof *top->now);
    top->rows.list = bn_alloc(BN_TOP_ROWS, sizeof *top->rows.list);
    if (top->now == NULL || top->rows.list == NULL) return bn_nomem(err);
    bn_status status = find_file(path, args->n_operands > 0 ? args->operands[0] : NULL, err);
    if (status == BN_OK) status = bn_live_attach(&top->reader, path, err);
    if (status == BN_ERR_NOT_FOUND) bn_error_hint(err, NONE_HINT);
    return status == BN_OK ? bn_top_refresh(top, err) : status;
}

void bn_top_close(struct bn_top *top)
{
    bn_top_pass_close(&top->pass);
    if (top->now != NULL) bn_live_release(top->now);
    bn_free(top->now);
    bn_free(top->rows.list);
    bn_live_detach(top->reader);
}

#define IDLE_NS 2000000000u /* without a pass, when the program does not say whether it works */

static enum bn_top_state state_of(const struct bn_live_snapshot *now)
{
    if (now->has_ended) return BN_TOP_ENDED;
    if (now->load.n_sequences > 0) return now->load.n_running > 0 ? BN_TOP_RUNNING : BN_TOP_IDLE;
    return now->read_ns > now->counts.updated_ns + IDLE_NS ? BN_TOP_IDLE : BN_TOP_RUNNING;
}

void bn_top_remake(struct bn_top *top)
{
    struct bn_top_window all;
    const struct bn_top_window *window = &top->window;
    if (top->view.since_start) {
        bn_top_window(&all, top->now, NULL);
        window = &all;
    }
    if (top->view.of_pass)
        bn_top_pass_rows(&top->rows, top->now, &top->pass, &top->view);
    else
        bn_top_brick_rows(&top->rows, top->now, window, &top->pass, &top->budget, &top->view);
}

bn_status bn_top_refresh(struct bn_top *top, bn_error *err)
{
    struct bn_live_snapshot *next = bn_alloc(1, sizeof *next);
    bn_error why = {0};
    if (next == NULL) return bn_nomem(err);
    if (bn_live_read(next, top->reader, &why) != BN_OK) {
        bool has_ended = next->has_ended;
        bn_free(next);
        snprintf(top->trouble, sizeof top->trouble, "%s", why.msg);
        if (top->now->pid != 0) { /* what was read before is still shown */
            top->now->has_ended = has_ended;
            top->state = state_of(top->now);
            return BN_OK;
        }
        if (err != NULL) *err = why;
        return why.code;
    }
    top->trouble[0] = '\0';
    bool is_first = top->now->pid == 0;
    if (is_first || next->counts.n_measured != top->now->counts.n_measured)
        bn_top_window(&top->window, next, is_first ? NULL : top->now);
    bn_top_pass_close(&top->pass); /* its names are in the snapshot */
    bn_live_release(top->now);
    bn_free(top->now);
    top->now = next;
    top->state = state_of(next);
    bn_top_pass_open(&top->pass, next);
    bn_top_remake(top);
    return BN_OK;
}
