/* SPDX-License-Identifier: MIT
 *
 * The grammar of answers: thoughts, text, and calls of functions whose arguments are held to schemas. Text up to a tag is
 * a chain of rules, one for each byte of the tag that has been read, so that the tag is seen wherever it begins. The first
 * byte of a tag comes only once in it: after another byte, at most that one has been read.
 */
#include <stdio.h>

#include "base/error.h"
#include "grammar/schema.h"
#include "tokenizer/chat.h"

#define MAX_FUNCTIONS 128u
#define MAX_NAME 64u
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
#define CALL "<tool_call>"
#define PARAMETER_END "\n</parameter>"

/* ---- functions ---- */

static const char *name_of(const bn_json *tool)
{
    return bn_json_text_of(tool, "function.name");
}

const bn_json *bn_chat_parameters(const bn_json *tools, const char *name)
{
    return bn_json_path(bn_json_find(tools, "function.name", name), "function.parameters");
}

enum bn_chat_value bn_chat_value(const bn_json *parameters, const char *name)
{
    struct bn_schema s = {.root = parameters};
    const bn_json *schema = NULL;
    if (bn_schema_follow(&s, parameters, &schema) != BN_OK ||
        bn_schema_follow(&s, bn_json_get(bn_json_get(schema, "properties"), name), &schema) != BN_OK)
        return BN_VALUE_JSON;
    const bn_json *list = bn_json_get(schema, "enum"), *type = bn_json_get(schema, "type");
    const char *text = list != NULL && type == NULL ? "string" : "";
    (void)bn_json_string(type, &text);
    if (strcmp(text, "string") != 0 || (list != NULL && bn_json_size(list) == 0)) return BN_VALUE_JSON;
    for (const bn_json *m = bn_json_first(schema); m != NULL; m = bn_json_next(m))
        if (m != list && m != type && !bn_schema_is_annotation(bn_json_name(m))) return BN_VALUE_JSON;
    for (const bn_json *v = bn_json_first(list); v != NULL; v = bn_json_next(v)) /* each can stand alone */
        if (!bn_json_string(v, &text) || strstr(text, &PARAMETER_END[1]) != NULL) return BN_VALUE_JSON;
    return list != NULL ? BN_VALUE_CHOICE : BN_VALUE_RAW;
}

static bn_status check_tools(const struct bn_chat_form *form, bn_error *err)
{
    size_t n = 0;
    bool found = form->only == NULL;
    for (const bn_json *tool = bn_json_first(form->tools); tool != NULL; tool = bn_json_next(tool), n++) {
        const char *name = name_of(tool);
        char shown[96];
        size_t length = strlen(name);
        if (length == 0 || length > MAX_NAME || strspn(name, NAME_BYTES) != length)
            return bn_fail(err, BN_ERR_FORMAT,
                           "function %zu has the name '%s'; 1 to 64 letters, digits, _ - . are allowed", n,
                           bn_escape(shown, sizeof shown, name, length));
        for (const bn_json *t = bn_json_first(form->tools); t != tool; t = bn_json_next(t))
            if (strcmp(name_of(t), name) == 0)
                return bn_fail(err, BN_ERR_FORMAT, "two functions have the name '%s'", name);
        if (n == MAX_FUNCTIONS)
            return bn_fail(err, BN_ERR_LIMIT, "there are more than %u functions", MAX_FUNCTIONS);
        found = found || strcmp(form->only, name) == 0;
    }
    if (n == 0 && (form->required || form->only != NULL))
        return bn_fail(err, BN_ERR_ARG, "a call is required, and there is no function");
    return found ? BN_OK
                 : bn_fail(err, BN_ERR_ARG, "the function that must be called is not among the functions");
}

/* ---- text ---- */

/* Rules NAME-k: text after k bytes of the tag, up to its end, where `after` follows; optional: or up to any place. */
static void put_until(struct bn_buf *out, const char *name, const char *tag, bool optional, const char *after)
{
    for (size_t k = 0; tag[k] != '\0'; k++) {
        bn_buf_printf(out, "%s-%zu ::= %s[\\x%02X] ", name, k, optional ? "\"\" | " : "", (unsigned)tag[k]);
        if (tag[k + 1] != '\0')
            bn_buf_printf(out, "%s-%zu", name, k + 1);
        else
            bn_buf_puts(out, after);
        if (k > 0) bn_buf_printf(out, " | [\\x%02X] %s-1", (unsigned)tag[0], name);
        bn_buf_printf(out, " | [^\\x%02X\\x%02X] %s-0\n", (unsigned)tag[k], (unsigned)tag[0], name);
    }
}

/* ---- calls ---- */

/* The schema of parameters; *schema is NULL when there are none. */
static bn_status find_object(struct bn_schema *s, const bn_json *parameters, const bn_json **schema)
{
    unsigned types = BN_TYPE_OBJECT;
    bool object = bn_json_kind(parameters) == BN_JSON_OBJECT,
         none = parameters == NULL || (object && bn_json_size(parameters) == 0);
    *schema = NULL;
    bn_schema_set_root(s, parameters);
    if (object && !none) BN_TRY(bn_schema_follow(s, parameters, schema));
    if (object && !none) BN_TRY(bn_schema_types(s, *schema, &types));
    if (none || (object && types == BN_TYPE_OBJECT)) return BN_OK;
    return bn_fail(s->err, BN_ERR_FORMAT, "its parameters are not the schema of an object");
}

static bn_status put_parameter(struct bn_schema *s, const bn_json *parameters, const bn_json *m,
                               struct bn_buf *e)
{
    const char *name = bn_json_name(m);
    enum bn_chat_value value = bn_chat_value(parameters, name);
    const bn_json *schema;
    if (name[0] == '\0' || strpbrk(name, ">\n") != NULL)
        return bn_schema_refuse(s, name, "has a name that the template cannot write");
    bn_buf_puts(e, " (\"<parameter=\" ");
    bn_schema_put_literal(e, name, strlen(name));
    bn_buf_puts(e, " \">\\n\" ");
    if (value == BN_VALUE_RAW) {
        bn_buf_puts(e, "raw-1"); /* the line feed is there */
    } else if (value == BN_VALUE_CHOICE) {
        BN_TRY(bn_schema_follow(s, m, &schema));
        const bn_json *list = bn_json_get(schema, "enum");
        for (const bn_json *v = bn_json_first(list); v != NULL; v = bn_json_next(v)) {
            const char *text = "";
            (void)bn_json_string(v, &text);
            bn_buf_puts(e, v == bn_json_first(list) ? "(" : " | ");
            bn_schema_put_literal(e, text, strlen(text));
        }
        bn_buf_puts(e, ") \"\\n</parameter>\"");
    } else {
        BN_TRY(bn_schema_put_rule(s, m, e));
        bn_buf_puts(e, " \"\\n</parameter>\"");
    }
    bn_buf_puts(e, " \"\\n\")");
    return BN_OK;
}

/* Parameters one after the other, in the order of the schema. */
static bn_status put_parameters(struct bn_schema *s, const bn_json *parameters, const bn_json *schema,
                                struct bn_buf *e)
{
    static const char *const KNOWN[] = {"type", "properties", "required", "additionalProperties"};
    for (const bn_json *m = bn_json_first(schema); m != NULL; m = bn_json_next(m))
        if (!bn_schema_is_annotation(bn_json_name(m)) && !BN_HAS(KNOWN, bn_json_name(m)))
            return bn_schema_refuse(s, bn_json_name(m), "is not supported for the parameters of a function");
    const bn_json *properties = bn_json_get(schema, "properties"),
                  *required = bn_json_get(schema, "required");
    for (const bn_json *v = bn_json_first(required); v != NULL; v = bn_json_next(v)) {
        const char *name;
        if (!bn_json_string(v, &name) || bn_json_get(properties, name) == NULL)
            return bn_schema_refuse(s, "required", "names what \"properties\" does not have");
    }
    size_t mark = bn_schema_enter(s, "properties");
    for (const bn_json *m = bn_json_first(properties); m != NULL; m = bn_json_next(m)) {
        size_t here = bn_schema_enter(s, bn_json_name(m));
        BN_TRY(put_parameter(s, parameters, m, e));
        bn_schema_leave(s, here);
        if (!bn_json_has_text(required, bn_json_name(m))) bn_buf_putc(e, '?');
    }
    bn_schema_leave(s, mark);
    return BN_OK;
}

static bn_status put_function(struct bn_schema *s, enum bn_chat_calls calls, const bn_json *tool, size_t i)
{
    const bn_json *parameters = bn_json_path(tool, "function.parameters"), *schema;
    struct bn_buf e = {.max = BN_GRAMMAR_MAX_GBNF};
    bool xml = calls == BN_CALLS_XML;
    bn_status status = find_object(s, parameters, &schema);
    if (status == BN_OK && xml) status = put_parameters(s, parameters, schema, &e);
    if (status == BN_OK && !xml && schema != NULL) status = bn_schema_put_rule(s, parameters, &e);
    if (!xml && schema == NULL) bn_buf_puts(&e, "\"{}\"");
    if (status == BN_OK) status = bn_buf_check(&e, s->err);
    if (status == BN_OK)
        bn_buf_printf(s->out,
                      xml ? "f%zu ::= \"<function=%s>\\n\"%s \"</function>\"\n"
                          : "f%zu ::= \"{\\\"name\\\": \\\"%s\\\", \\\"arguments\\\": \" %s \"}\"\n",
                      i, name_of(tool), bn_buf_text(&e));
    bn_buf_release(&e);
    return status == BN_OK ? bn_schema_put_refs(s) : status;
}

/* Rules: a call, and what follows the first tag of calls. */
static bn_status put_calls(struct bn_schema *s, enum bn_chat_calls calls, const struct bn_chat_form *form)
{
    struct bn_buf names = {.max = BN_GRAMMAR_MAX_BYTES};
    bn_status status = BN_OK;
    size_t i = 0;
    for (const bn_json *tool = bn_json_first(form->tools); tool != NULL && status == BN_OK;
         tool = bn_json_next(tool), i++) {
        if (form->only != NULL && strcmp(form->only, name_of(tool)) != 0) continue;
        bn_buf_printf(&names, "%sf%zu", names.len > 0 ? " | " : "", i);
        status = put_function(s, calls, tool, i);
        if (status != BN_OK && s->err != NULL) {
            char why[sizeof s->err->msg];
            memcpy(why, s->err->msg, sizeof why);
            snprintf(s->err->msg, sizeof why, "function %s: %.*s", name_of(tool),
                     (int)(sizeof why - MAX_NAME - 12), why);
        }
    }
    if (status == BN_OK) status = bn_buf_check(&names, s->err);
    if (status == BN_OK) bn_buf_printf(s->out, "call ::= %s\n", names.data);
    bn_buf_release(&names);
    if (calls == BN_CALLS_LIST)
        bn_buf_printf(
            s->out,
            "gap ::= (\"\\n\" \" \"{0,2})?\nrest ::= \"\\n[\" gap call%s \"\\n\"? \"]\\n</tool_call>\"\n",
            form->single ? "" : " (\",\" gap call)*");
    else
        bn_buf_printf(s->out, "one ::= \"\\n\" call \"\\n</tool_call>\"\nrest ::= one%s\n",
                      form->single ? "" : " (\"\\n" CALL "\" one)*");
    if (calls == BN_CALLS_XML) put_until(s->out, "raw", PARAMETER_END, false, "");
    return status;
}

/* ---- answers ---- */

static bn_status put_schema(struct bn_schema *s, const struct bn_chat_form *form)
{
    struct bn_buf e = {.max = 64};
    bn_json *root = NULL;
    BN_TRY(bn_json_parse(&root, form->schema, form->n_schema, s->err));
    bn_schema_set_root(s, root);
    bn_status status = bn_schema_put_rule(s, root, &e);
    if (status == BN_OK) status = bn_schema_put_refs(s);
    bn_buf_printf(s->out, "answer ::= %s\n", bn_buf_text(&e));
    bn_buf_release(&e);
    bn_json_free(root);
    return status;
}

bn_status bn_chat_grammar(struct bn_buf *gbnf, bn_template tmpl, const struct bn_chat_form *form,
                          bn_error *err)
{
    bool has_tools = bn_json_size(form->tools) > 0;
    bn_status status = BN_OK;
    struct bn_schema s;
    if (has_tools && form->schema != NULL)
        return bn_fail(err, BN_ERR_ARG, "functions and a schema of the answer exclude each other");
    BN_TRY(check_tools(form, err));
    bool thinks = bn_template_thinking(tmpl) == BN_THINKING_ON;
    bn_buf_printf(gbnf, "root ::= %sanswer\n",
                  !thinks                      ? ""
                  : tmpl == BN_TEMPLATE_QWEN35 ? "think-0 " /* the prompt has the tag */
                                               : "(\"<think>\" think-0)? ");
    if (thinks) put_until(gbnf, "think", "</think>", false, "\"\\n\"{0,2}");
    if (!has_tools && form->schema == NULL) {
        bn_buf_puts(gbnf, "answer ::= .*\n");
        return bn_buf_check(gbnf, err);
    }
    bn_schema_begin(&s, gbnf, err);
    if (has_tools) {
        status = put_calls(&s, bn_chat_calls(tmpl), form);
        if (!form->required) put_until(gbnf, "text", CALL, true, "rest");
        bn_buf_puts(gbnf, form->required ? "answer ::= \"" CALL "\" rest\n" : "answer ::= text-0\n");
    } else {
        status = put_schema(&s, form);
    }
    bn_schema_release(&s);
    return status == BN_OK ? bn_buf_check(gbnf, err) : status;
}
