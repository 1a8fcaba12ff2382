/* SPDX-License-Identifier: MIT
 *
 * Reads a configuration file by the events of libyaml. This is the only file that includes yaml.h.
 */
#include "tools/bench/plan/yaml.h"

#include <yaml.h>

#include "base/error.h"

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    struct bn_yaml *out;
    bn_error *err;
};

/* ---- events ---- */

static unsigned line_of(const struct reader *r)
{
    return (unsigned)r->event.start_mark.line + 1;
}

static const char *text_of(const struct reader *r)
{
    return (const char *)r->event.data.scalar.value;
}

static bn_status refuse(const struct reader *r, const char *what)
{
    return bn_fail(r->err, BN_ERR_FORMAT, "line %u: %s", line_of(r), what);
}

static bn_status refuse_syntax(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    unsigned long line = p->problem_mark.line + 1;
    if (p->error == YAML_MEMORY_ERROR) return bn_nomem(r->err);
    if (p->error == YAML_READER_ERROR)
        return bn_fail(r->err, BN_ERR_FORMAT, "byte %zu: %s", p->problem_offset, p->problem);
    return bn_fail(r->err, BN_ERR_FORMAT, "line %lu: not YAML: %s", line,
                   p->problem != NULL ? p->problem : "syntax error");
}

static bn_status next(struct reader *r)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event)) return refuse_syntax(r);
    yaml_event_type_t type = r->event.type;
    if (type == YAML_ALIAS_EVENT) return refuse(r, "an alias (*name) is not supported");
    if (type == YAML_SCALAR_EVENT) anchor = r->event.data.scalar.anchor, tag = r->event.data.scalar.tag;
    if (type == YAML_SEQUENCE_START_EVENT)
        anchor = r->event.data.sequence_start.anchor, tag = r->event.data.sequence_start.tag;
    if (type == YAML_MAPPING_START_EVENT)
        anchor = r->event.data.mapping_start.anchor, tag = r->event.data.mapping_start.tag;
    if (anchor != NULL) return refuse(r, "an anchor (&name) is not supported");
    if (tag != NULL) return refuse(r, "a tag (!name) is not supported");
    return BN_OK;
}

/* ---- values ---- */

static bn_status add_value(struct reader *r, struct bn_yaml_entry *e, const char *text, size_t n, bool quoted)
{
    if (n == 0 && !quoted) return refuse(r, "an empty value");
    if (memchr(text, '\0', n) != NULL) return refuse(r, "a value with a NUL byte");
    if (e->n >= BN_YAML_MAX_VALUES)
        return bn_fail(r->err, BN_ERR_LIMIT, "line %u: more than %u values", line_of(r), BN_YAML_MAX_VALUES);
    BN_TRY(bn_array_grow(&e->values, &e->room, e->n + 1, sizeof *e->values, r->err));
    struct bn_yaml_value *v = &e->values[e->n];
    v->text = bn_strndup(text, n);
    v->quoted = quoted;
    if (v->text == NULL) return bn_nomem(r->err);
    e->n++;
    return BN_OK;
}

static bn_status add_scalar(struct reader *r, struct bn_yaml_entry *e)
{
    return add_value(r, e, text_of(r), r->event.data.scalar.length,
                     r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE);
}

/* The values of a list inside a list, joined by x. */
static bn_status add_joined(struct reader *r, struct bn_yaml_entry *e)
{
    struct bn_buf text = {.max = 1024};
    bn_status status = next(r);
    while (status == BN_OK && r->event.type == YAML_SCALAR_EVENT) {
        bn_buf_printf(&text, "%s%s", text.len > 0 ? "x" : "", text_of(r));
        status = next(r);
    }
    if (status == BN_OK && r->event.type != YAML_SEQUENCE_END_EVENT)
        status = refuse(r, "nested too deep: expected a number");
    if (status == BN_OK) status = bn_buf_check(&text, r->err);
    if (status == BN_OK) status = add_value(r, e, bn_buf_text(&text), text.len, false);
    bn_buf_release(&text);
    return status;
}

static bn_status read_value(struct reader *r, struct bn_yaml_entry *e)
{
    BN_TRY(next(r));
    if (r->event.type == YAML_SCALAR_EVENT) return add_scalar(r, e);
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return refuse(r, "nested too deep: expected a value or a list");
    e->list = true;
    BN_TRY(next(r));
    while (r->event.type != YAML_SEQUENCE_END_EVENT) {
        if (r->event.type == YAML_SCALAR_EVENT)
            BN_TRY(add_scalar(r, e));
        else if (r->event.type == YAML_SEQUENCE_START_EVENT)
            BN_TRY(add_joined(r, e));
        else
            return refuse(r, "a section inside a list: expected a value");
        BN_TRY(next(r));
    }
    return e->n > 0 ? BN_OK : refuse(r, "an empty list");
}

/* ---- keys ---- */

/* The current event is a key, which may not occur before. */
static bn_status begin_entry(struct reader *r, const char *section, size_t first)
{
    struct bn_yaml *y = r->out;
    if (r->event.type != YAML_SCALAR_EVENT) return refuse(r, "expected the name of a key");
    for (size_t i = first; i < y->n; i++)
        if (strcmp(y->list[i].key, text_of(r)) == 0)
            return bn_fail(r->err, BN_ERR_FORMAT, "line %u: duplicate key '%.40s' (first in line %u)",
                           line_of(r), text_of(r), y->list[i].line);
    BN_TRY(bn_array_grow(&y->list, &y->room, y->n + 1, sizeof *y->list, r->err));
    struct bn_yaml_entry *e = &y->list[y->n++];
    *e = (struct bn_yaml_entry){.section = bn_strndup(section, strlen(section)),
                                .key = bn_strndup(text_of(r), strlen(text_of(r))),
                                .line = line_of(r)};
    return e->section != NULL && e->key != NULL ? BN_OK : bn_nomem(r->err);
}

static bn_status read_keys(struct reader *r, const char *section)
{
    size_t first = r->out->n;
    BN_TRY(next(r));
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return bn_fail(r->err, BN_ERR_FORMAT, "line %u: '%.40s' is a section: expected keys below it",
                       line_of(r), section);
    BN_TRY(next(r));
    while (r->event.type != YAML_MAPPING_END_EVENT) {
        BN_TRY(begin_entry(r, section, first));
        BN_TRY(read_value(r, &r->out->list[r->out->n - 1]));
        BN_TRY(next(r));
    }
    return r->out->n > first ? BN_OK : refuse(r, "an empty section");
}

/* The current event is the name of a section. */
static bn_status read_section(struct reader *r)
{
    if (r->event.type != YAML_SCALAR_EVENT) return refuse(r, "expected the name of a section");
    for (size_t i = 0; i < r->out->n; i++)
        if (strcmp(r->out->list[i].section, text_of(r)) == 0)
            return bn_fail(r->err, BN_ERR_FORMAT, "line %u: duplicate section '%.40s'", line_of(r),
                           text_of(r));
    char *section = bn_strndup(text_of(r), strlen(text_of(r)));
    if (section == NULL) return bn_nomem(r->err);
    bn_status status = read_keys(r, section);
    bn_free(section);
    return status;
}

static bn_status read_stream(struct reader *r)
{
    BN_TRY(next(r)); /* start of the stream */
    BN_TRY(next(r));
    if (r->event.type != YAML_DOCUMENT_START_EVENT)
        return bn_fail(r->err, BN_ERR_FORMAT, "the file has no sections");
    BN_TRY(next(r));
    if (r->event.type != YAML_MAPPING_START_EVENT) return refuse(r, "expected a section, such as inference:");
    BN_TRY(next(r));
    while (r->event.type != YAML_MAPPING_END_EVENT) {
        BN_TRY(read_section(r));
        BN_TRY(next(r));
    }
    BN_TRY(next(r)); /* end of the document */
    BN_TRY(next(r));
    return r->event.type == YAML_STREAM_END_EVENT ? BN_OK : refuse(r, "a second document: expected one");
}

bn_status bn_yaml_parse(struct bn_yaml *out, const char *text, size_t n, bn_error *err)
{
    struct reader r = {.out = out, .err = err};
    if (n > BN_YAML_MAX_BYTES) return bn_fail(err, BN_ERR_LIMIT, "more than %u bytes", BN_YAML_MAX_BYTES);
    if (!yaml_parser_initialize(&r.parser)) return bn_nomem(err);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    bn_status status = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}

void bn_yaml_release(struct bn_yaml *yaml)
{
    for (size_t i = 0; i < yaml->n; i++) {
        struct bn_yaml_entry *e = &yaml->list[i];
        for (size_t k = 0; k < e->n; k++)
            bn_free(e->values[k].text);
        bn_free(e->values);
        bn_free(e->section);
        bn_free(e->key);
    }
    bn_free(yaml->list);
    *yaml = (struct bn_yaml){0};
}
