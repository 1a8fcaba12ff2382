/* SPDX-License-Identifier: MIT
 *
 * The numbers of a request, with their ranges.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "tools/cli/batch/lanes.h"

struct number {
    const char *name;
    double least, most;
    bool whole;
};

static const struct number NUMBERS[] = {
    {"n_predict", 1, 1u << 24, true},
    {"temperature", 0, 100, false},
    {"top_k", 0, 1u << 20, true},
    {"top_p", 0, 1, false},
    {"min_p", 0, 1, false},
    {"repeat_penalty", 1, 100, false},
    {"seed", 0, 9007199254740991, true},
};

static void set_number(bn_generation *gen, size_t i, double value)
{
    switch (i) {
    case 0:
        gen->n_predict = (uint32_t)value;
        break;
    case 1:
        gen->sampling.temperature = (float)value;
        break;
    case 2:
        gen->sampling.top_k = (uint32_t)value;
        break;
    case 3:
        gen->sampling.top_p = (float)value;
        break;
    case 4:
        gen->sampling.min_p = (float)value;
        break;
    case 5:
        gen->sampling.repeat_penalty = (float)value;
        break;
    default:
        gen->sampling.seed = (uint64_t)value;
        break;
    }
}

bool bn_request_number(bn_generation *gen, const bn_json *member, bn_status *status, bn_error *err)
{
    for (size_t i = 0; i < BN_ARRAY_LEN(NUMBERS); i++) {
        const struct number *n = &NUMBERS[i];
        double value;
        if (strcmp(bn_json_name(member), n->name) != 0) continue;
        if (!bn_json_number(member, &value) || value < n->least || value > n->most ||
            (n->whole && value != floor(value)))
            *status = bn_fail(err, BN_ERR_FORMAT, "%s is not a%s number from %.0f to %.0f", n->name,
                              n->whole ? " whole" : "", n->least, n->most);
        else
            set_number(gen, i, value);
        return true;
    }
    return false;
}
