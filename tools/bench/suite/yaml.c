/* SPDX-License-Identifier: MIT
 *
 * Reads a configuration file by the tree that libyaml builds. This is the only file that includes yaml.h.
 */
#include <yaml.h>

#include "tools/bench/suite/suite.h"

struct reader {
    yaml_document_t doc;
    struct bn_yaml *out;
    char *key; /* of the values that are read, and its line */
    unsigned line;
    bn_error *err;
};

static unsigned line_of(const yaml_node_t *node)
{
    return (unsigned)node->start_mark.line + 1;
}

static const char *text_of(const yaml_node_t *scalar)
{
    return (const char *)scalar->data.scalar.value;
}

static bn_status refuse(const struct reader *r, const yaml_node_t *node, const char *what)
{
    return bn_fail(r->err, BN_ERR_FORMAT, "line %u: %s", line_of(node), what);
}

/* A node of a list or a mapping; one whose tag was given, such as !name, is refused. */
static bn_status get(struct reader *r, yaml_node_t **out, int index)
{
    static const char *const PLAIN[] = {YAML_STR_TAG, YAML_SEQ_TAG, YAML_MAP_TAG};
    yaml_node_t *node = *out = yaml_document_get_node(&r->doc, index);
    if (BN_HAS(PLAIN, (const char *)node->tag)) return BN_OK;
    return refuse(r, node, "a tag (!name) is not supported");
}

/* ---- values ---- */

/* Takes over the text. */
static bn_status add_value(struct reader *r, const yaml_node_t *at, char *text, size_t n, bool list,
                           bool quoted)
{
    struct bn_yaml *y = r->out;
    bn_status status = text != NULL ? BN_OK : bn_nomem(r->err);
    if (status == BN_OK && n == 0 && !quoted) status = refuse(r, at, "an empty value");
    if (status == BN_OK && strlen(text) != n) status = refuse(r, at, "a value with a NUL byte");
    if (status == BN_OK) status = bn_array_grow(&y->list, &y->room, y->n + 1, sizeof *y->list, r->err);
    if (status == BN_OK)
        y->list[y->n++] = (struct bn_yaml_value){r->key, text, r->line, list};
    else
        bn_free(text);
    return status;
}

/* The values of a list inside a list, joined by x. */
static bn_status add_joined(struct reader *r, const yaml_node_t *list)
{
    struct bn_buf text = {.max = 1024};
    bn_status status = BN_OK;
    yaml_node_t *node;
    for (yaml_node_item_t *i = list->data.sequence.items.start;
         i < list->data.sequence.items.top && status == BN_OK; i++) {
        status = get(r, &node, *i);
        if (status == BN_OK && node->type != YAML_SCALAR_NODE)
            status = refuse(r, node, "nested too deep: expected a number");
        if (status == BN_OK) bn_buf_printf(&text, "%s%s", text.len > 0 ? "x" : "", text_of(node));
    }
    if (status == BN_OK) status = bn_buf_check(&text, r->err);
    if (status == BN_OK && text.len > 0) return add_value(r, list, text.data, text.len, true, false);
    if (status == BN_OK) status = refuse(r, list, "an empty list");
    bn_buf_release(&text);
    return status;
}

static bn_status read_value(struct reader *r, const yaml_node_t *node, bool list)
{
    if (node->type == YAML_SCALAR_NODE)
        return add_value(r, node, bn_strndup(text_of(node), node->data.scalar.length),
                         node->data.scalar.length, list, node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE);
    if (node->type == YAML_MAPPING_NODE)
        return refuse(r, node, "nested too deep: expected a value or a list of values");
    if (list) return add_joined(r, node);
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        yaml_node_t *item;
        BN_TRY(get(r, &item, *i));
        BN_TRY(read_value(r, item, true));
    }
    return BN_OK;
}

/* ---- keys ---- */

static bn_status read_key(struct reader *r, const char *section, const yaml_node_pair_t *pair)
{
    struct bn_buf name = {.max = BN_YAML_MAX_BYTES};
    yaml_node_t *key, *value;
    size_t first = r->out->n;
    BN_TRY(get(r, &key, pair->key));
    BN_TRY(get(r, &value, pair->value));
    if (key->type != YAML_SCALAR_NODE) return refuse(r, key, "expected the name of a key");
    bn_buf_printf(&name, "%s.%s", section, text_of(key));
    bn_status status = bn_buf_check(&name, r->err);
    for (size_t i = 0; i < first && status == BN_OK; i++)
        if (strcmp(r->out->list[i].key, name.data) == 0)
            status = bn_fail(r->err, BN_ERR_FORMAT, "line %u: duplicate key '%.60s' (first in line %u)",
                             line_of(key), name.data, r->out->list[i].line);
    r->key = name.data;
    r->line = line_of(key);
    if (status == BN_OK) status = read_value(r, value, false);
    if (r->out->n == first) bn_buf_release(&name); /* no value has it */
    return status != BN_OK || r->out->n > first ? status : refuse(r, value, "an empty list");
}

static bn_status read_section(struct reader *r, const yaml_node_pair_t *section)
{
    yaml_node_t *name, *keys;
    BN_TRY(get(r, &name, section->key));
    BN_TRY(get(r, &keys, section->value));
    if (name->type != YAML_SCALAR_NODE) return refuse(r, name, "expected the name of a section");
    if (keys->type != YAML_MAPPING_NODE)
        return bn_fail(r->err, BN_ERR_FORMAT, "line %u: '%.40s' is a section: expected keys below it",
                       line_of(name), text_of(name));
    size_t n = strlen(text_of(name));
    for (size_t i = 0; i < r->out->n; i++)
        if (strncmp(r->out->list[i].key, text_of(name), n) == 0 && r->out->list[i].key[n] == '.')
            return bn_fail(r->err, BN_ERR_FORMAT, "line %u: duplicate section '%.40s'", line_of(name),
                           text_of(name));
    for (yaml_node_pair_t *p = keys->data.mapping.pairs.start; p < keys->data.mapping.pairs.top; p++)
        BN_TRY(read_key(r, text_of(name), p));
    return BN_OK;
}

static bn_status read_sections(struct reader *r)
{
    yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    if (root == NULL) return bn_fail(r->err, BN_ERR_FORMAT, "the file has no sections");
    if (root->type != YAML_MAPPING_NODE) return refuse(r, root, "expected a section, such as inference:");
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++)
        BN_TRY(read_section(r, p));
    return BN_OK;
}

/* ---- the text ---- */

static bn_status load(yaml_parser_t *p, yaml_document_t *doc, bn_error *err)
{
    if (yaml_parser_load(p, doc)) return BN_OK;
    /* Where memory is lacking, libyaml may name no problem. */
    if (p->error == YAML_MEMORY_ERROR || p->problem == NULL) return bn_nomem(err);
    if (p->error == YAML_READER_ERROR)
        return bn_fail(err, BN_ERR_FORMAT, "byte %zu: %s", p->problem_offset, p->problem);
    return bn_fail(err, BN_ERR_FORMAT, "line %lu: not YAML: %s", (unsigned long)p->problem_mark.line + 1,
                   p->problem);
}

bn_status bn_yaml_parse(struct bn_yaml *out, const char *text, size_t n, bn_error *err)
{
    struct reader r = {.out = out, .err = err};
    yaml_parser_t parser;
    yaml_document_t second;
    if (n > BN_YAML_MAX_BYTES) return bn_fail(err, BN_ERR_LIMIT, "more than %u bytes", BN_YAML_MAX_BYTES);
    if (!yaml_parser_initialize(&parser)) return bn_nomem(err);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    bn_status status = load(&parser, &r.doc, err);
    if (status == BN_OK) {
        status = read_sections(&r);
        yaml_document_delete(&r.doc);
    }
    if (status == BN_OK && (status = load(&parser, &second, err)) == BN_OK) {
        if (yaml_document_get_root_node(&second) != NULL)
            status = bn_fail(err, BN_ERR_FORMAT, "line %lu: a second document: expected one",
                             (unsigned long)second.start_mark.line + 1);
        yaml_document_delete(&second);
    }
    yaml_parser_delete(&parser);
    return status;
}

void bn_yaml_release(struct bn_yaml *yaml)
{
    for (size_t i = 0; i < yaml->n; i++) {
        if (i + 1 == yaml->n || yaml->list[i].key != yaml->list[i + 1].key) bn_free(yaml->list[i].key);
        bn_free(yaml->list[i].text);
    }
    bn_free(yaml->list);
    *yaml = (struct bn_yaml){0};
}
