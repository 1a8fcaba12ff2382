/* SPDX-License-Identifier: MIT
 *
 * Chat templates. A prompt is a sequence of runs of text and marks; a mark is a control token. Text between
 * two marks is encoded as one run, without looking for special tokens in it, so that no message can speak
 * for another role. Under the templates of Qwen, answers before the last question lose their think blocks.
 *
 * Functions are described, called and answered as the models' own templates write them. Two things differ: calls and results
 * are written whether or not functions are given, so that nothing is lost; and numbers are as JSON has them, 1.0 is 1.
 */
#include <stdio.h>

#include "base/error.h"
#include "tokenizer/chat.h"
#include "tokenizer/vocab.h"

#define EOT "<|eot_id|>"
#define HEADER "<|start_header_id|>"
#define HEADER_END "<|end_header_id|>"
#define BEGIN "<|begin_of_text|>"
#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"
#define THINK "<think>"
#define THINK_END "</think>"

/* What the templates write before the first message, for one of the system, of the user and of the assistant, between two,
 * and at the end. {mark} is a control token, [mark] a token where the vocabulary has it, and text where it has not; %{ and %[
 * are the characters. %r is the role and %c the content, %t without white space around it; %a and %b are the same with the
 * think block apart, as Qwen3 and Qwen3.5 do it. The content of an answer ends with its calls, that of the first message of
 * the system has the functions. Results are the content of a user's message, unless the form has `result`. */
#define LLAMA3(role) "{" HEADER "}" role "{" HEADER_END "}\n\n"
#define LLAMA3_TURN LLAMA3("%r") "%t{" EOT "}"
#define CHATML(content) "{" IM_START "}%r\n" content "{" IM_END "}\n"
#define CHATML_FORM(the_name, content, answer, after)                                 \
    .name = the_name, .messages = {CHATML(content), CHATML(content), CHATML(answer)}, \
    .end = "{" IM_START "}assistant\n" after, .stops = {IM_END}
#define NO_THOUGHTS "[" THINK "]\n\n[" THINK_END "]\n\n"
static const struct form {
    const char *name, *begin, *messages[3], *between, *end;
    const char *stops[2]; /* for models that spell a mark instead of giving its token, too */
    enum bn_chat_calls calls;
    const char *result, *empty; /* a result; an answer without text */
} FORMS[] = {
    [BN_TEMPLATE_AUTO] = {.name = "auto"},
    [BN_TEMPLATE_RAW] = {.name = "raw", .messages = {"%c", "%c", "%c"}, .between = "\n"},
    [BN_TEMPLATE_INSTRUCT] = {.name = "instruct",
                              .messages = {"System: %t\n\n", "Q: %t\nA:", " %t\n\n"},
                              .stops = {"\n\nQ:", "\n\nHuman:"}},
    [BN_TEMPLATE_LLAMA3_CHAT] = {.name = "llama3-chat",
                                 .begin = "{" BEGIN "}",
                                 .messages = {LLAMA3_TURN, LLAMA3_TURN, LLAMA3_TURN},
                                 .end = LLAMA3("assistant"),
                                 .stops = {EOT}},
    [BN_TEMPLATE_BITNET] = {.name = "bitnet",
                            .messages = {"System: %t{" EOT "}", "User: %t{" EOT "}",
                                         "Assistant: %t{" EOT "}"},
                            .end = "Assistant: ",
                            .stops = {EOT}},
    [BN_TEMPLATE_CHATML] = {CHATML_FORM("chatml", "%c", "%c", "")},
    [BN_TEMPLATE_QWEN3] = {CHATML_FORM("qwen3", "%c", "%a", "")},
    [BN_TEMPLATE_QWEN3_NO_THINK] = {CHATML_FORM("qwen3-no-think", "%c", "%a", NO_THOUGHTS)},
    [BN_TEMPLATE_QWEN35] = {CHATML_FORM("qwen35", "%t", "%b", "[" THINK "]\n"), .calls = BN_CALLS_XML},
    [BN_TEMPLATE_QWEN35_NO_THINK] = {CHATML_FORM("qwen35-no-think", "%t", "%b", NO_THOUGHTS),
                                     .calls = BN_CALLS_XML},
    [BN_TEMPLATE_FALCON3] = {.name = "falcon3",
                             .messages = {"[<|system|>]\n%c\n", "[<|user|>]\n%c\n",
                                          "[<|assistant|>]\n%c{<|endoftext|>}\n"},
                             .end = "[<|assistant|>]\n",
                             .stops = {"<|user|>"},
                             .calls = BN_CALLS_LIST,
                             .result = "[<|assistant|>]\n[<tool_response>]\n%c\n[</tool_response>]\n",
                             .empty = "%c{<|endoftext|>}\n"},
};

/* The functions, and how to call them: %j is their JSON. A call: %n is its name, %o, %i and %p are its arguments. */
static const struct calls {
    bool first;       /* the message of the system comes after it */
    const char *join; /* between them */
    const char *describe;
    const char *after_text; /* between the text of an answer and its calls */
    const char *open, *call, *between, *close;
} CALLS[] = {
    [BN_CALLS_JSON] =
        {false, "\n\n",
         "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
         "You are provided with function signatures within [<tools>][</tools>] XML tags:\n[<tools>]%j\n[</tools>]\n\n"
         "For each function call, return a json object with function name and arguments within [<tool_call>][</tool_call>] "
         "XML tags:\n[<tool_call>]\n%{\"name\": <function-name>, \"arguments\": <args-json-object>}\n[</tool_call>]",
         "\n", "", "[<tool_call>]\n%{\"name\": \"%n\", \"arguments\": %o}\n[</tool_call>]", "\n", ""},
    [BN_CALLS_XML] =
        {true, "\n\n",
         "# Tools\n\nYou have access to the following functions:\n\n[<tools>]%j\n[</tools>]\n\n"
         "If you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
         "[<tool_call>]\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
         "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
         "</parameter>\n</function>\n[</tool_call>]\n\n<IMPORTANT>\nReminder:\n"
         "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within "
         "[<tool_call>][</tool_call>] XML tags\n- Required parameters MUST be specified\n"
         "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT "
         "after\n- If there is no function call available, answer the question like normal with your current knowledge and "
         "do not tell the user about function calls\n</IMPORTANT>",
         "\n\n", "", "[<tool_call>]\n<function=%n>\n%p</function>\n[</tool_call>]", "\n", ""},
    [BN_CALLS_LIST] =
        {false, "",
         "You are a Falcon assistant skilled in function calling. You are helpful, respectful, and concise.\n\n# Tools\n\n"
         "You have access to the following functions. You MUST use them to answer questions when needed. For each function "
         "call, you MUST return a JSON object inside [<tool_call>][</tool_call>] tags.\n\n[<tools>]%j[</tools>]\n\n"
         "# Output Format\n\nYour response MUST follow this format when making function calls:\n[<tool_call>]\n%[\n"
         "  %{\"name\": \"function_name\", \"arguments\": %{\"arg1\": \"value1\", \"arg2\": \"value2\"}},\n"
         "  %{\"name\": \"another_function\", \"arguments\": %{\"arg\": \"value\"}}\n]\n[</tool_call>]\n"
         "If no function calls are needed, respond normally without the tool_call tags.",
         "", "\n[<tool_call>]\n%[", "\n  %{\n    \"name\": \"%n\",\n    \"arguments\": %i\n  }", ",",
         "\n]\n[</tool_call>]"},
};

bool bn_template_from_name(const char *name, bn_template *out)
{
    size_t i = BN_FIND(FORMS, name);
    if (i < BN_ARRAY_LEN(FORMS)) *out = (bn_template)i;
    return i < BN_ARRAY_LEN(FORMS);
}

const char *bn_template_name(bn_template tmpl)
{
    return (size_t)tmpl < BN_ARRAY_LEN(FORMS) ? FORMS[tmpl].name : "unknown";
}

static const struct form *form_of(bn_template tmpl)
{
    return &FORMS[(size_t)tmpl < BN_ARRAY_LEN(FORMS) ? tmpl : BN_TEMPLATE_AUTO];
}

const char *bn_template_stop(bn_template tmpl, size_t i)
{
    return i < BN_ARRAY_LEN(FORMS->stops) ? form_of(tmpl)->stops[i] : NULL;
}

enum bn_chat_calls bn_chat_calls(bn_template tmpl)
{
    return form_of(tmpl)->calls;
}

bn_thinking bn_template_thinking(bn_template tmpl)
{
    if (tmpl == BN_TEMPLATE_QWEN3 || tmpl == BN_TEMPLATE_QWEN35) return BN_THINKING_ON;
    if (tmpl == BN_TEMPLATE_QWEN3_NO_THINK || tmpl == BN_TEMPLATE_QWEN35_NO_THINK) return BN_THINKING_OFF;
    return BN_THINKING_NONE;
}

bn_template bn_template_set_thinking(bn_template tmpl, bool on)
{
    if (tmpl == BN_TEMPLATE_QWEN3 || tmpl == BN_TEMPLATE_QWEN3_NO_THINK)
        return on ? BN_TEMPLATE_QWEN3 : BN_TEMPLATE_QWEN3_NO_THINK;
    if (tmpl == BN_TEMPLATE_QWEN35 || tmpl == BN_TEMPLATE_QWEN35_NO_THINK)
        return on ? BN_TEMPLATE_QWEN35 : BN_TEMPLATE_QWEN35_NO_THINK;
    return tmpl;
}

bn_template bn_template_resolve(bn_template tmpl, const bn_tokenizer *tok)
{
    if (tmpl != BN_TEMPLATE_AUTO) return tmpl;
    return tok != NULL ? tok->chat : BN_TEMPLATE_RAW;
}

/* ---- prompts ---- */

/* Where a prompt goes: into ids when tok is given, else into text alone. */
struct prompt {
    const struct bn_tokenizer *tok;
    struct bn_buf text; /* with a tokenizer: the run since the last mark */
    struct bn_ids ids;
    const struct bn_conversation *c;
    const struct form *form;
    size_t last_question; /* the turn; later answers keep their think blocks */
    bn_error *err;
};

static bn_status flush(struct prompt *p)
{
    BN_TRY(bn_buf_check(&p->text, p->err));
    BN_TRY(bn_encode(p->tok, p->text.data, p->text.len, BN_ENCODE_MESSAGE, &p->ids, NULL, p->err));
    p->text.len = 0;
    return BN_OK;
}

/* A mark that the template needs, or one that some vocabularies of the family spell: then it is text. */
static bn_status put_mark(struct prompt *p, const char *text, size_t n, bool needed)
{
    int32_t id = p->tok != NULL ? bn_token_find(p->tok, text, n) : -1;
    if (needed && id >= 0 && p->tok->type[id] != BN_TOKEN_CONTROL) id = -1;
    if (id < 0 && needed && p->tok != NULL)
        return bn_hint(bn_fail(p->err, BN_ERR_UNSUPPORTED,
                               "the vocabulary has no token %.*s, which the template needs", (int)n, text),
                       p->err, "use --template raw or instruct");
    if (id < 0) {
        bn_buf_append(&p->text, text, n);
        return BN_OK;
    }
    BN_TRY(flush(p));
    return bn_ids_push(&p->ids, id, p->err);
}

/* ---- texts ---- */

static struct bn_str str(const char *text)
{
    return (struct bn_str){text, strlen(text)};
}

/* Without these characters on the left, and on the right. */
static struct bn_str stripped(struct bn_str text, const char *left, const char *right)
{
    for (; text.len > 0 && strchr(left, text.ptr[0]) != NULL; text.len--)
        text.ptr++;
    while (text.len > 0 && strchr(right, text.ptr[text.len - 1]) != NULL)
        text.len--;
    return text;
}

#define SPACES " \t\n\v\f\r"

static struct bn_str trimmed(struct bn_str text)
{
    return stripped(text, SPACES, SPACES);
}

/* An answer without its think block: what follows the last </think>, less line feeds. A block that was cut off
 * is not an answer. */
static struct bn_str without_thoughts(struct bn_str text)
{
    const char *from = text.ptr, *end = text.ptr + text.len;
    for (const char *at; (at = strstr(from, THINK_END)) != NULL;)
        from = at + strlen(THINK_END);
    if (from == text.ptr) {
        size_t blank = strspn(text.ptr, " \t\r\n");
        return strncmp(text.ptr + blank, THINK, strlen(THINK)) == 0 ? (struct bn_str){end, 0} : text;
    }
    while (from < end && *from == '\n')
        from++;
    return (struct bn_str){from, from < end ? (size_t)(end - from) : 0};
}

/* The thoughts in an answer: what is before the first </think> and after the last <think>. */
static struct bn_str thoughts_in(struct bn_str text)
{
    const char *end = strstr(text.ptr, THINK_END), *from = text.ptr;
    if (end == NULL) return (struct bn_str){text.ptr, 0};
    for (const char *at; (at = strstr(from, THINK)) != NULL && at < end;)
        from = at + strlen(THINK);
    return stripped((struct bn_str){from, (size_t)(end - from)}, "\n", "\n");
}

/* ---- JSON ---- */

#define FLAT UINT32_MAX

/* As Python's json.dumps writes it; depth: indented by two spaces for each, or FLAT. */
static bn_status put_json(struct bn_buf *out, const bn_json *value, uint32_t depth, bn_error *err)
{
    bool object = bn_json_kind(value) == BN_JSON_OBJECT;
    uint32_t inside = depth == FLAT ? FLAT : depth + 1;
    if (bn_json_first(value) == NULL) return bn_json_write(value, true, out, err);
    bn_buf_putc(out, object ? '{' : '[');
    for (const bn_json *v = bn_json_first(value); v != NULL; v = bn_json_next(v)) {
        if (v != bn_json_first(value)) bn_buf_puts(out, depth == FLAT ? ", " : ",");
        if (depth != FLAT) bn_buf_printf(out, "\n%*s", (int)(2 * inside), "");
        if (object) bn_json_write_string(out, bn_json_name(v));
        if (object) bn_buf_puts(out, ": ");
        BN_TRY(put_json(out, v, inside, err));
    }
    if (depth != FLAT) bn_buf_printf(out, "\n%*s", (int)(2 * depth), "");
    bn_buf_putc(out, object ? '}' : ']');
    return BN_OK;
}

/* The functions: a line for each, or an indented list. */
static bn_status put_tools(struct prompt *p)
{
    if (p->form->calls == BN_CALLS_LIST) return put_json(&p->text, p->c->tools, 0, p->err);
    for (const bn_json *tool = bn_json_first(p->c->tools); tool != NULL; tool = bn_json_next(tool)) {
        bn_buf_putc(&p->text, '\n');
        BN_TRY(put_json(&p->text, tool, FLAT, p->err));
    }
    return BN_OK;
}

/* Arguments as the template of Qwen3.5 has them: texts as they are, other values as Python's str gives them. */
static bn_status put_parameters(struct prompt *p, const bn_json *arguments)
{
    for (const bn_json *m = bn_json_first(arguments); m != NULL; m = bn_json_next(m)) {
        const char *text = bn_json_kind(m) == BN_JSON_NULL ? "None" : NULL;
        bool flag;
        if (bn_json_bool(m, &flag)) text = flag ? "True" : "False";
        bn_buf_printf(&p->text, "<parameter=%s>\n", bn_json_name(m));
        if (text != NULL || bn_json_string(m, &text))
            bn_buf_puts(&p->text, text);
        else
            BN_TRY(put_json(&p->text, m, FLAT, p->err));
        bn_buf_puts(&p->text, "\n</parameter>\n");
    }
    return BN_OK;
}

/* ---- contents ---- */

static const char *const ROLES[] = {"system", "user", "assistant", "tool"};
enum { SYSTEM, USER, ASSISTANT, TOOL };
static const struct bn_chat_turn NO_SYSTEM = {.role = "system", .content = ""}; /* for the functions alone */

static size_t role_of(const struct bn_chat_turn *turn)
{
    return BN_FIND(ROLES, turn->role);
}

static bn_status put(struct prompt *p, const char *text, const struct bn_chat_turn *turn,
                     const struct bn_chat_call *call);

static bn_status put_system(struct prompt *p, const struct bn_chat_turn *turn, struct bn_str text)
{
    const struct calls *calls = &CALLS[p->form->calls];
    if (!calls->first) {
        bn_buf_append(&p->text, text.ptr, text.len);
        if (turn != &NO_SYSTEM) bn_buf_puts(&p->text, calls->join);
    }
    BN_TRY(put(p, calls->describe, NULL, NULL));
    if (calls->first && text.len > 0) {
        bn_buf_puts(&p->text, calls->join);
        bn_buf_append(&p->text, text.ptr, text.len);
    }
    return BN_OK;
}

/* The results from this turn on, as far as there are no other turns between them. */
static bn_status put_results(struct prompt *p, const struct bn_chat_turn *turn, bool trim)
{
    const struct bn_chat_turn *end = p->c->turns + p->c->n_turns, *first = turn;
    for (; turn < end && role_of(turn) == TOOL; turn++) {
        if (turn > first) bn_buf_putc(&p->text, '\n');
        BN_TRY(put(p,
                   trim ? "[<tool_response>]\n%t\n[</tool_response>]"
                        : "[<tool_response>]\n%c\n[</tool_response>]",
                   &(struct bn_chat_turn){.role = ROLES[USER], .content = turn->content}, NULL));
    }
    return BN_OK;
}

static bn_status put_answer(struct prompt *p, char field, const struct bn_chat_turn *turn, struct bn_str text)
{
    const struct calls *calls = &CALLS[p->form->calls];
    bool splits = field == 'a' || field == 'b', later = (size_t)(turn - p->c->turns) > p->last_question;
    struct bn_str thoughts = turn->thoughts != NULL ? str(turn->thoughts) : thoughts_in(text);
    if (splits && turn->thoughts == NULL) text = without_thoughts(text);
    bool is_text = text.len > 0;
    if (splits && later && (field == 'b' || thoughts.len > 0)) {
        thoughts = field == 'b' ? trimmed(thoughts) : stripped(thoughts, "\n", "\n");
        if (field == 'a') text = stripped(text, "\n", "");
        BN_TRY(put(p, "[" THINK "]\n", NULL, NULL));
        bn_buf_append(&p->text, thoughts.ptr, thoughts.len);
        BN_TRY(put(p, "\n[" THINK_END "]\n\n", NULL, NULL));
    }
    bn_buf_append(&p->text, text.ptr, text.len);
    if (turn->n_calls == 0) return BN_OK;
    if (is_text) bn_buf_puts(&p->text, calls->after_text);
    for (size_t i = 0; i < turn->n_calls; i++) {
        BN_TRY(put(p, i == 0 ? calls->open : calls->between, NULL, NULL));
        BN_TRY(put(p, calls->call, NULL, &turn->calls[i]));
    }
    return put(p, calls->close, NULL, NULL);
}

static bool has_tools(const struct bn_conversation *c)
{
    return bn_json_size(c->tools) > 0;
}

static bn_status put_content(struct prompt *p, char field, const struct bn_chat_turn *turn)
{
    struct bn_str text = str(turn->content);
    bool trim = field == 't' || field == 'b', first = turn == &NO_SYSTEM || turn == p->c->turns;
    size_t role = role_of(turn);
    if (trim) text = trimmed(text);
    if (role == TOOL && p->form->result == NULL) return put_results(p, turn, trim);
    if (role == SYSTEM && first && has_tools(p->c)) return put_system(p, turn, text);
    if (role == ASSISTANT) return put_answer(p, field, turn, text);
    bn_buf_append(&p->text, text.ptr, text.len);
    return BN_OK;
}

static bn_status put_field(struct prompt *p, char field, const struct bn_chat_turn *turn,
                           const struct bn_chat_call *call)
{
    switch (field) {
    case 'r': /* results are the user's */
        bn_buf_puts(&p->text, role_of(turn) == TOOL ? ROLES[USER] : turn->role);
        return BN_OK;
    case 'n':
        bn_buf_puts(&p->text, call->name);
        return BN_OK;
    case 'o':
        return put_json(&p->text, call->arguments, FLAT, p->err);
    case 'i': /* inside of two brackets */
        return put_json(&p->text, call->arguments, 2, p->err);
    case 'p':
        return put_parameters(p, call->arguments);
    case 'j':
        return put_tools(p);
    case '{':
    case '[':
        bn_buf_putc(&p->text, field);
        return BN_OK;
    default:
        return put_content(p, field, turn);
    }
}

/* A text of the tables, if it is there; turn, call: for one that has their fields. */
static bn_status put(struct prompt *p, const char *text, const struct bn_chat_turn *turn,
                     const struct bn_chat_call *call)
{
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, "{[%");
        bn_buf_append(&p->text, text, n);
        text += n;
        if (*text == '%') {
            BN_TRY(put_field(p, text[1], turn, call));
            text += 2;
        } else if (*text != '\0') {
            n = strcspn(text, "}]");
            BN_TRY(put_mark(p, text + 1, n - 1, *text == '{'));
            text += n + 1;
        }
    }
    return BN_OK;
}

/* ---- conversations ---- */

static bn_status check_turns(bn_template tmpl, const struct bn_conversation *c, bn_error *err)
{
    if (c->n_turns == 0) return bn_fail(err, BN_ERR_ARG, "there is no message");
    for (size_t i = 0; i < c->n_turns; i++) {
        const char *role = c->turns[i].role;
        if (role == NULL || c->turns[i].content == NULL)
            return bn_fail(err, BN_ERR_ARG, "message %zu has no role or no content", i);
        if (role_of(&c->turns[i]) == BN_ARRAY_LEN(ROLES)) {
            char quoted[48];
            return bn_fail(err, BN_ERR_ARG,
                           "message %zu has the role '%s', known are system, user, assistant, tool", i,
                           bn_escape(quoted, sizeof quoted, role, strlen(role)));
        }
    }
    size_t last = role_of(&c->turns[c->n_turns - 1]);
    if (tmpl != BN_TEMPLATE_RAW && last != USER && last != TOOL)
        return bn_fail(err, BN_ERR_ARG, "the last of messages is not the user's or a tool's");
    return BN_OK;
}

/* A user's turn that is not a result in the words of the template; the last turn when there is none. */
static size_t find_question(const struct bn_conversation *c, const struct form *form)
{
    static const char OPEN[] = "<tool_response>", CLOSE[] = "</tool_response>";
    for (size_t i = c->n_turns; i-- > 0;) {
        struct bn_str text = str(c->turns[i].content);
        if (strstr(form->messages[USER], "%t") != NULL) text = trimmed(text);
        bool result = text.len >= strlen(CLOSE) && memcmp(text.ptr, OPEN, strlen(OPEN)) == 0 &&
                      memcmp(text.ptr + text.len - strlen(CLOSE), CLOSE, strlen(CLOSE)) == 0;
        if (role_of(&c->turns[i]) == USER && !result) return i;
    }
    return c->n_turns - 1;
}

static bn_status put_turns(struct prompt *p, bn_template tmpl)
{
    const struct bn_conversation *c = p->c;
    const struct form *form = p->form = form_of(tmpl);
    BN_TRY(check_turns(tmpl, c, p->err));
    if (form->messages[0] == NULL)
        return bn_fail(p->err, BN_ERR_ARG, "the template %s cannot be rendered", bn_template_name(tmpl));
    p->last_question = find_question(c, form);
    BN_TRY(put(p, form->begin, NULL, NULL));
    bool alone = has_tools(c) && role_of(c->turns) != SYSTEM;
    if (alone) BN_TRY(put(p, form->messages[SYSTEM], &NO_SYSTEM, NULL));
    for (size_t i = 0; i < c->n_turns; i++) {
        const struct bn_chat_turn *turn = &c->turns[i];
        size_t role = role_of(turn);
        const char *text = role == TOOL ? form->result : form->messages[role];
        if (role == ASSISTANT && form->empty != NULL && has_tools(c) && turn->content[0] == '\0')
            text = form->empty;
        if (role == TOOL && text == NULL) {
            if (i > 0 && role_of(turn - 1) == TOOL) continue; /* it is in the same message */
            text = form->messages[USER];
        }
        if (i > 0 || alone) BN_TRY(put(p, form->between, NULL, NULL));
        BN_TRY(put(p, text, turn, NULL));
    }
    return put(p, form->end, NULL, NULL);
}

bn_status bn_chat_encode(bn_template tmpl, const bn_tokenizer *tok, const struct bn_conversation *c,
                         int32_t **ids, size_t *n_ids, bn_error *err)
{
    *ids = NULL;
    *n_ids = 0;
    if (tok == NULL) return bn_fail(err, BN_ERR_ARG, "the model has no vocabulary");
    struct prompt p = {.tok = tok, .text.max = BN_MAX_TEXT_BYTES, .c = c, .err = err};
    tmpl = bn_template_resolve(tmpl, tok);
    bn_status status = BN_OK;
    if (tmpl != BN_TEMPLATE_LLAMA3_CHAT && tok->add_bos && tok->bos >= 0)
        status = bn_ids_push(&p.ids, tok->bos, err);
    if (status == BN_OK) status = put_turns(&p, tmpl);
    if (status == BN_OK) status = flush(&p);
    bn_buf_release(&p.text);
    if (status != BN_OK) {
        bn_free(p.ids.data);
        return status;
    }
    *ids = p.ids.data;
    *n_ids = p.ids.n;
    return BN_OK;
}

bn_status bn_chat_render(bn_template tmpl, const struct bn_conversation *c, char **text, size_t *n_bytes,
                         bn_error *err)
{
    struct prompt p = {.text.max = BN_MAX_TEXT_BYTES, .c = c, .err = err};
    *text = NULL;
    *n_bytes = 0;
    bn_status status = put_turns(&p, tmpl);
    if (status == BN_OK) {
        bn_buf_puts(&p.text, ""); /* raw with empty contents still gives a text */
        status = bn_buf_check(&p.text, err);
    }
    if (status != BN_OK) {
        bn_buf_release(&p.text);
        return status;
    }
    *text = p.text.data;
    *n_bytes = p.text.len;
    return BN_OK;
}

/* The prompt of messages as tokens, or, without a tokenizer, as a text. */
static bn_status of_messages(bn_template tmpl, const bn_tokenizer *tok, const bn_message *messages, size_t n,
                             int32_t **ids, char **text, size_t *n_out, bn_error *err)
{
    struct bn_chat_turn *turns = bn_alloc(n, sizeof *turns);
    if (turns == NULL) return bn_nomem(err);
    for (size_t i = 0; i < n; i++)
        turns[i] = (struct bn_chat_turn){.role = messages[i].role, .content = messages[i].content};
    const struct bn_conversation c = {.turns = turns, .n_turns = n};
    bn_status status = ids != NULL ? bn_chat_encode(tmpl, tok, &c, ids, n_out, err)
                                   : bn_chat_render(tmpl, &c, text, n_out, err);
    bn_free(turns);
    return status;
}

bn_status bn_template_encode(bn_template tmpl, const bn_tokenizer *tok, const bn_message *messages,
                             size_t n_messages, int32_t **ids, size_t *n_ids, bn_error *err)
{
    *ids = NULL;
    return of_messages(tmpl, tok, messages, n_messages, ids, NULL, n_ids, err);
}

bn_status bn_template_render(bn_template tmpl, const bn_message *messages, size_t n_messages, char **text,
                             size_t *n_bytes, bn_error *err)
{
    *text = NULL;
    return of_messages(tmpl, NULL, messages, n_messages, NULL, text, n_bytes, err);
}
