/* SPDX-License-Identifier: MIT
 *
 * Prints the rows of a doctor; see doctor.h.
 */
#include "tools/cli/program/doctor.h"
#include "lab/kit/put_counts.h"

#include <stdarg.h>

#include "base/error.h"
#include "tools/cli/program/help.h"
#include "tools/cli/report.h"

#define TEXT_COLUMN 26u
#define COLUMNS 80u

void bn_doctor_begin(struct bn_doctor *doctor, struct bn_args *args, const char *section)
{
    *doctor = (struct bn_doctor){.args = args, .section = section, .shown = ""};
    if (args->json) doctor->rows = bn_json_new_array();
}

/* Whether a check is in the list of --require. */
static bool is_required(struct bn_doctor *doctor, const char *check)
{
    bool found = false;
    for (size_t i = 0; i < doctor->args->require.n && i < 64; i++) {
        if (strcmp(doctor->args->require.list[i], check) != 0) continue;
        doctor->seen |= UINT64_C(1) << i;
        found = true;
    }
    return found;
}

void bn_doctor_put(struct bn_doctor *doctor, enum bn_doctor_state state, const char *check, const char *hint,
                   const char *fmt, ...)
{
    static const char *const STATES[] = {"ok", "note", "FAIL"};
    char raw[1200], value[2400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    bn_escape(value, sizeof value, raw, strlen(raw));
    if (is_required(doctor, check) && state != BN_DOCTOR_OK) state = BN_DOCTOR_FAIL;
    if (state == BN_DOCTOR_OK || (hint != NULL && hint[0] == '\0')) hint = NULL;
    doctor->n_failed += state == BN_DOCTOR_FAIL;
    if (doctor->rows != NULL) {
        bn_json *row = bn_json_add_object(doctor->rows);
        BN_PUT(row, BN_STRING("section", doctor->section), BN_STRING("check", check),
               BN_STRING("state", STATES[state]), BN_STRING("value", value), BN_TEXT("hint", hint));
        return;
    }
    if (strcmp(doctor->section, doctor->shown) != 0) printf("%s:\n", doctor->section);
    doctor->shown = doctor->section;
    printf("%-5s %-19s ", STATES[state], check);
    bn_help_wrap(stdout, value, TEXT_COLUMN, TEXT_COLUMN, COLUMNS);
    if (hint != NULL) {
        printf("%*s", (int)TEXT_COLUMN, "fix: ");
        bn_help_wrap(stdout, hint, TEXT_COLUMN, TEXT_COLUMN, COLUMNS);
    }
    fflush(stdout);
}

bn_status bn_doctor_end(struct bn_doctor *doctor, bn_status status, bn_error *err)
{
    struct bn_args *args = doctor->args;
    for (size_t i = 0; i < args->require.n && i < 64 && status == BN_OK; i++)
        if ((doctor->seen >> i & 1) == 0)
            status = bn_fail(err, BN_ERR_ARG, "--require: there is no check '%.60s'", args->require.list[i]);
    if (doctor->rows != NULL) {
        bn_json *document = bn_json_new_object();
        bn_json_put_string(document, "schema", "bn.doctor/1");
        bn_json_put_copy(document, "rows", doctor->rows);
        bn_json_put_bool(document, "ready", doctor->n_failed == 0);
        if (status == BN_OK) status = bn_cli_print_json(document, err);
        bn_json_free(document);
        bn_json_free(doctor->rows);
    }
    if (status == BN_OK && doctor->n_failed > 0) args->exit_code = BN_EXIT_NEGATIVE;
    return status;
}
