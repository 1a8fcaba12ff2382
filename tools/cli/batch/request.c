/* SPDX-License-Identifier: MIT
 *
 * The members that requests of bn-run and bn-serve share: numbers with their ranges, and the grammar, a text of GBNF or a
 * JSON Schema. A schema that is part of a request is written again with its members in their order, which is the order
 * of the members of the answer.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "grammar/grammar.h"
#include "tools/cli/batch/lanes.h"

bool bn_request_number(bn_generation *gen, const bn_json *member, bn_status *status, bn_error *err)
{
    const struct {
        const char *name;
        double least, most;
        uint32_t *whole; /* or one of the next two */
        float *number;
        uint64_t *large;
    } NUMBERS[] = {
        {"n_predict", 1, 1u << 24, .whole = &gen->n_predict},
        {"temperature", 0, 100, .number = &gen->sampling.temperature},
        {"top_k", 0, 1u << 20, .whole = &gen->sampling.top_k},
        {"top_p", 0, 1, .number = &gen->sampling.top_p},
        {"min_p", 0, 1, .number = &gen->sampling.min_p},
        {"repeat_penalty", 1, 100, .number = &gen->sampling.repeat_penalty},
        {"presence_penalty", -2, 2, .number = &gen->sampling.presence_penalty},
        {"frequency_penalty", -2, 2, .number = &gen->sampling.frequency_penalty},
        {"seed", 0, 9007199254740991, .large = &gen->sampling.seed},
    };
    size_t i = BN_FIND(NUMBERS, bn_json_name(member));
    double value;
    if (i == BN_ARRAY_LEN(NUMBERS)) return false;
    bool whole = NUMBERS[i].number == NULL, given = bn_json_number(member, &value);
    if (given && value == -1.0 && NUMBERS[i].whole == &gen->n_predict)
        gen->n_predict = UINT32_MAX; /* unlimited */
    else if (!given || value < NUMBERS[i].least || value > NUMBERS[i].most ||
             (whole && value != floor(value)))
        *status = bn_fail(err, BN_ERR_FORMAT, "%s is not a%s number from %.0f to %.0f", NUMBERS[i].name,
                          whole ? " whole" : "", NUMBERS[i].least, NUMBERS[i].most);
    else if (NUMBERS[i].whole != NULL)
        *NUMBERS[i].whole = (uint32_t)value;
    else if (NUMBERS[i].number != NULL)
        *NUMBERS[i].number = (float)value;
    else
        *NUMBERS[i].large = (uint64_t)value;
    return true;
}

bn_status bn_request_schema(bn_grammar **out, const bn_json *schema, bn_error *err)
{
    struct bn_buf text = {.max = 4 * BN_GRAMMAR_MAX_BYTES};
    bn_status status = bn_json_write(schema, false, &text, err);
    if (status == BN_OK) status = bn_grammar_open_json_schema(out, bn_buf_text(&text), text.len, err);
    bn_buf_release(&text);
    return status;
}

bool bn_request_grammar(bn_grammar **out, const bn_json *member, bn_status *status, bn_error *err)
{
    const char *name = bn_json_name(member), *text;
    bool is_schema = strcmp(name, "json_schema") == 0;
    if (!is_schema && strcmp(name, "grammar") != 0) return false;
    if (*out != NULL)
        *status = bn_fail(err, BN_ERR_ARG, "grammar and json_schema are given, one is allowed");
    else if (is_schema)
        *status = bn_request_schema(out, member, err);
    else if (bn_json_string(member, &text))
        *status = bn_grammar_open_gbnf(out, text, strlen(text), err);
    else
        *status = bn_fail(err, BN_ERR_FORMAT, "grammar is not a text");
    return true;
}

void bn_prompt_release(struct bn_prompt *prompt)
{
    bn_free(prompt->text);
    bn_free(prompt->ids);
    *prompt = (struct bn_prompt){0};
}

const char *bn_request_stuck(const bn_generation *gen)
{
    if (gen->stuck == BN_ERR_NOMEM) return "out of memory";
    return gen->stuck == BN_ERR_LIMIT ? "the grammar is over a limit of places, states or steps"
                                      : "no token continues the text under the grammar";
}
