/* SPDX-License-Identifier: MIT
 *
 * The small documents of downloads, by cJSON: what a hub's servers answer, lock files, journals, versions of URLs.
 * What cJSON would accept in silence is refused here: text after the document, a member that is there twice, a number
 * that is not whole, or has more digits than cJSON writes, where bytes are counted. It nests at most 1000 deep.
 */
#ifndef BN_HUB_DOCUMENT_H
#define BN_HUB_DOCUMENT_H

#include <cjson/cJSON.h>

#include "base/buf.h"

/* The document in n bytes; with a schema, an object whose "schema" is this text. BN_ERR_FORMAT otherwise. */
BN_MUST_CHECK bn_status bn_hub_document_parse(cJSON **out, const char *text, size_t n, const char *schema,
                                              bn_error *err);
/* The same of a regular file, which errors name. */
BN_MUST_CHECK bn_status bn_hub_document_read(cJSON **out, const char *path, const char *schema,
                                             bn_error *err);
/* Appends the text, indented or in one line, and a line feed. NULL, as after a failed allocation, is an error. */
BN_MUST_CHECK bn_status bn_hub_document_write(struct bn_buf *out, const cJSON *document, bool indented,
                                              bn_error *err);

/* A member by its name; NULL when there is none, or more than one. */
const cJSON *bn_hub_member(const cJSON *object, const char *name);
/* A member that is a text; "" otherwise. */
const char *bn_hub_text_of(const cJSON *object, const char *name);
/* A member that is a whole number below the limit: cJSON writes 15 digits. */
#define BN_HUB_WHOLE_MAX 1e15
bool bn_hub_whole(const cJSON *object, const char *name, uint64_t *out);

struct bn_hub_text {
    const char *name, *value; /* NULL becomes null */
};
/* An object with n texts; NULL when memory is short. */
cJSON *bn_hub_object(const struct bn_hub_text *texts, size_t n);

#endif
