/* SPDX-License-Identifier: MIT
 *
 * Reads and writes the small documents of downloads by cJSON; see document.h.
 */
#include "hub/files/document.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

bn_status bn_hub_document_parse(cJSON **out, const char *text, size_t n, const char *schema, bn_error *err)
{
    const char *end = text;
    errno = 0;
    *out = cJSON_ParseWithLengthOpts(text, n, &end, false);
    if (*out == NULL && errno == ENOMEM) return bn_nomem(err);
    while (*out != NULL && end < text + n && strchr(" \t\r\n", *end) != NULL && *end != '\0')
        end++;
    bn_status status = BN_OK;
    if (*out == NULL || end != text + n)
        status = bn_fail_at(err, BN_ERR_FORMAT, (uint64_t)(end - text), NULL, "not a JSON document");
    else if (schema != NULL && strcmp(bn_hub_text_of(*out, "schema"), schema) != 0)
        status = bn_fail(err, BN_ERR_FORMAT, "the document's schema is not %s", schema);
    if (status == BN_OK) return BN_OK;
    cJSON_Delete(*out);
    *out = NULL;
    return status;
}

bn_status bn_hub_document_read(cJSON **out, const char *path, const char *schema, bn_error *err)
{
    struct bn_buf text = {.max = BN_JSON_MAX_BYTES};
    *out = NULL;
    bn_status status = bn_file_read_regular(path, &text, err);
    if (status == BN_OK) status = bn_hub_document_parse(out, bn_buf_text(&text), text.len, schema, err);
    if (status != BN_OK) bn_error_name(err, path);
    bn_buf_release(&text);
    return status;
}

bn_status bn_hub_document_write(struct bn_buf *out, const cJSON *document, bool indented, bn_error *err)
{
    char *text = indented ? cJSON_Print(document) : cJSON_PrintUnformatted(document);
    if (text == NULL) return bn_nomem(err);
    bn_buf_puts(out, text);
    bn_buf_putc(out, '\n');
    cJSON_free(text);
    return bn_buf_check(out, err);
}

const cJSON *bn_hub_member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    for (const cJSON *other = found != NULL ? found->next : NULL; other != NULL; other = other->next)
        if (strcmp(other->string, name) == 0) return NULL;
    return found;
}

const char *bn_hub_text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(bn_hub_member(object, name));
    return text != NULL ? text : "";
}

bool bn_hub_whole(const cJSON *object, const char *name, uint64_t *out)
{
    const cJSON *item = bn_hub_member(object, name);
    bool whole = cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < BN_HUB_WHOLE_MAX &&
                 item->valuedouble == (double)(uint64_t)item->valuedouble;
    if (whole) *out = (uint64_t)item->valuedouble;
    return whole;
}

cJSON *bn_hub_object(const struct bn_hub_text *texts, size_t n)
{
    cJSON *object = cJSON_CreateObject();
    bool ok = object != NULL;
    for (size_t i = 0; i < n && ok; i++)
        ok = (texts[i].value != NULL ? cJSON_AddStringToObject(object, texts[i].name, texts[i].value)
                                     : cJSON_AddNullToObject(object, texts[i].name)) != NULL;
    if (ok) return object;
    cJSON_Delete(object);
    return NULL;
}
