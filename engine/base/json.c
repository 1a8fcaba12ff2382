/* SPDX-License-Identifier: MIT
 *
 * See json.h. cJSON holds the tree; what it does not check is checked around it: a scan of the bytes before
 * it sees them (grammar, UTF-8, escapes, sizes), and a walk over the tree afterwards (duplicate names,
 * numbers that are not finite). Only its case-sensitive look-ups are used, and its printer is not: numbers
 * here follow ECMAScript's shortest form (as in RFC 8785), except that a negative zero keeps its sign.
 */
#include "base/json.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"

#define MAX_NUMBER_BYTES 60u     /* cJSON cuts longer ones */
#define EXACT 9007199254740992.0 /* 2^53: below it, every whole number is itself */
#define EXACT_U64 (UINT64_C(1) << 53)

/* ---- scanning ---- */

struct scan {
    const unsigned char *text;
    size_t n, at, n_values;
    bn_error *err;
};

static bn_status scan_value(struct scan *s, unsigned depth);

static bn_status refuse(const struct scan *s, const char *what)
{
    return bn_fail_at(s->err, BN_ERR_FORMAT, s->at, NULL, "not JSON: %s", what);
}

/* Something else is at the place, or the text ends there. */
static bn_status expect(const struct scan *s, const char *what)
{
    char found[5];
    if (s->n == 0) return refuse(s, "the text is empty");
    if (s->at == s->n) return refuse(s, "the text ends inside a value");
    (void)bn_escape_char(found, (const char *)s->text + s->at, s->n - s->at, BN_ESCAPE_NAME);
    return bn_fail_at(s->err, BN_ERR_FORMAT, s->at, NULL, "not JSON: unexpected '%s', expected %s", found,
                      what);
}

static int peek(const struct scan *s)
{
    return s->at < s->n ? s->text[s->at] : -1;
}

static void skip_space(struct scan *s)
{
    while (s->at < s->n && (s->text[s->at] == ' ' || s->text[s->at] == '\n' || s->text[s->at] == '\t' ||
                            s->text[s->at] == '\r'))
        s->at++;
}

/* The four digits after \u, at s->at; moves past them. */
static bn_status scan_hex4(struct scan *s, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(s);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return expect(s, "four hexadecimal digits after \\u");
        *out = *out * 16 + (unsigned)digit;
        s->at++;
    }
    return BN_OK;
}

/* After a backslash. */
static bn_status scan_escape(struct scan *s)
{
    int c = peek(s);
    if (c == -1 || (c != 'u' && (c == 0 || strchr("\"\\/bfnrt", c) == NULL)))
        return expect(s, "one of \"\\/bfnrtu after a backslash");
    s->at++;
    if (c != 'u') return BN_OK;
    unsigned unit, low;
    BN_TRY(scan_hex4(s, &unit));
    if (unit == 0) return refuse(s, "NUL in a string");
    if (unit >= 0xDC00 && unit <= 0xDFFF) return refuse(s, "lone surrogate in a string");
    if (unit < 0xD800 || unit > 0xDBFF) return BN_OK;
    if (s->n - s->at < 2 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
        return refuse(s, "lone surrogate in a string");
    s->at += 2;
    BN_TRY(scan_hex4(s, &low));
    return low >= 0xDC00 && low <= 0xDFFF ? BN_OK : refuse(s, "lone surrogate in a string");
}

static bn_status scan_string(struct scan *s)
{
    if (peek(s) != '"') return expect(s, "a name in double quotes");
    s->at++;
    while (peek(s) != '"') {
        int c = peek(s);
        if (c == -1) return expect(s, "");
        if (c < 0x20) return refuse(s, "control character in a string");
        if (c == '\\') {
            s->at++;
            BN_TRY(scan_escape(s));
            continue;
        }
        size_t length = bn_utf8_length((const char *)s->text + s->at, s->n - s->at);
        if (length == 0) return refuse(s, "invalid UTF-8");
        s->at += length;
    }
    s->at++;
    return BN_OK;
}

static bn_status scan_digits(struct scan *s)
{
    size_t begin = s->at;
    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return s->at > begin ? BN_OK : expect(s, "a digit");
}

static bn_status scan_number(struct scan *s)
{
    size_t begin = s->at;
    if (peek(s) == '-') s->at++;
    if (peek(s) == '0')
        s->at++;
    else
        BN_TRY(scan_digits(s));
    if (peek(s) == '.') {
        s->at++;
        BN_TRY(scan_digits(s));
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-') s->at++;
        BN_TRY(scan_digits(s));
    }
    if (s->at - begin > MAX_NUMBER_BYTES)
        return bn_fail_at(s->err, BN_ERR_LIMIT, begin, NULL, "number longer than %u characters",
                          MAX_NUMBER_BYTES);
    return BN_OK;
}

static bn_status scan_word(struct scan *s, const char *word)
{
    for (const char *c = word; *c != '\0'; c++, s->at++)
        if (peek(s) != *c) return expect(s, word);
    return BN_OK;
}

/* An array (close is ']') or an object, from its bracket on. */
static bn_status scan_members(struct scan *s, unsigned depth, int close)
{
    if (depth == BN_JSON_MAX_DEPTH)
        return bn_fail_at(s->err, BN_ERR_LIMIT, s->at, NULL, "nested deeper than %u", BN_JSON_MAX_DEPTH);
    s->at++;
    skip_space(s);
    if (peek(s) == close) {
        s->at++;
        return BN_OK;
    }
    for (;;) {
        if (close == '}') {
            skip_space(s);
            BN_TRY(scan_string(s));
            skip_space(s);
            if (peek(s) != ':') return expect(s, "a colon");
            s->at++;
        }
        BN_TRY(scan_value(s, depth + 1));
        skip_space(s);
        int c = peek(s);
        if (c != ',' && c != close) return expect(s, "a comma or a closing bracket");
        s->at++;
        if (c == close) return BN_OK;
    }
}

static bn_status scan_value(struct scan *s, unsigned depth)
{
    if (++s->n_values > BN_JSON_MAX_VALUES)
        return bn_fail_at(s->err, BN_ERR_LIMIT, s->at, NULL, "more than %u values", BN_JSON_MAX_VALUES);
    skip_space(s);
    switch (peek(s)) {
    case '{':
        return scan_members(s, depth, '}');
    case '[':
        return scan_members(s, depth, ']');
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return scan_number(s);
    default:
        return expect(s, "a value");
    }
}

static bn_status scan_text(const char *text, size_t n, bn_error *err)
{
    struct scan s = {(const unsigned char *)text, n, 0, 0, err};
    if (n > BN_JSON_MAX_BYTES)
        return bn_fail(err, BN_ERR_LIMIT, "JSON text longer than %u bytes", BN_JSON_MAX_BYTES);
    if (n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return bn_fail_at(err, BN_ERR_FORMAT, 0, NULL, "not JSON: it starts with a byte order mark");
    BN_TRY(scan_value(&s, 0));
    skip_space(&s);
    return s.at == n ? BN_OK
                     : bn_fail_at(err, BN_ERR_FORMAT, s.at, NULL, "trailing data after the JSON value");
}

/* ---- checking the tree ---- */

static int by_name(const void *a, const void *b)
{
    const cJSON *const *left = a, *const *right = b;
    return strcmp((*left)->string, (*right)->string);
}

/* The members sorted by name, released with bn_free; NULL when memory is short. */
static const cJSON **sorted_members(const cJSON *object, size_t *n)
{
    *n = bn_json_size((const bn_json *)object);
    const cJSON **members = bn_alloc(*n, sizeof *members);
    if (members == NULL) return NULL;
    size_t i = 0;
    for (const cJSON *m = object->child; m != NULL; m = m->next)
        members[i++] = m;
    qsort(members, *n, sizeof *members, by_name);
    return members;
}

static bn_status check_names(const cJSON *object, bn_error *err)
{
    size_t n;
    const cJSON **members = sorted_members(object, &n);
    if (members == NULL) return bn_nomem(err);
    bn_status status = BN_OK;
    for (size_t i = 1; i < n && status == BN_OK; i++)
        if (strcmp(members[i - 1]->string, members[i]->string) == 0)
            status = bn_fail_at(err, BN_ERR_FORMAT, BN_NO_OFFSET, members[i]->string, "duplicate name");
    bn_free(members);
    return status;
}

static bn_status check_tree(const cJSON *value, bn_error *err)
{
    if (cJSON_IsNumber(value) && !isfinite(value->valuedouble))
        return bn_fail(err, BN_ERR_FORMAT, "number out of the range of binary64");
    if (cJSON_IsObject(value)) BN_TRY(check_names(value, err));
    for (const cJSON *child = value->child; child != NULL; child = child->next)
        BN_TRY(check_tree(child, err));
    return BN_OK;
}

/* ---- reading ---- */

static void *allocate(size_t n)
{
    return bn_alloc(n, 1);
}

static void set_hooks(void)
{
    cJSON_Hooks hooks = {allocate, bn_free};
    cJSON_InitHooks(&hooks);
}

static void use_our_memory(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, set_hooks);
}

bn_status bn_json_parse(bn_json **out, const char *text, size_t n, bn_error *err)
{
    *out = NULL;
    BN_TRY(scan_text(text, n, err));
    use_our_memory();
    cJSON *root = cJSON_ParseWithLength(text, n);
    if (root == NULL) return bn_fail(err, BN_ERR_NOMEM, "no memory for %zu bytes of JSON", n);
    bn_status status = check_tree(root, err);
    if (status != BN_OK) {
        cJSON_Delete(root);
        return status;
    }
    *out = (bn_json *)root;
    return BN_OK;
}

void bn_json_free(bn_json *root)
{
    cJSON_Delete((cJSON *)root);
}

enum bn_json_kind bn_json_kind(const bn_json *value)
{
    const cJSON *v = (const cJSON *)value;
    if (cJSON_IsBool(v)) return BN_JSON_BOOL;
    if (cJSON_IsNumber(v)) return BN_JSON_NUMBER;
    if (cJSON_IsString(v)) return BN_JSON_STRING;
    if (cJSON_IsArray(v)) return BN_JSON_ARRAY;
    return cJSON_IsObject(v) ? BN_JSON_OBJECT : BN_JSON_NULL;
}

static const bn_json *get(const bn_json *value, const char *name, size_t n)
{
    if (!cJSON_IsObject((const cJSON *)value)) return NULL;
    for (const cJSON *m = ((const cJSON *)value)->child; m != NULL; m = m->next)
        if (strncmp(m->string, name, n) == 0 && m->string[n] == '\0') return (const bn_json *)m;
    return NULL;
}

const bn_json *bn_json_get(const bn_json *value, const char *name)
{
    return get(value, name, strlen(name));
}

const bn_json *bn_json_path(const bn_json *value, const char *path)
{
    for (;;) {
        size_t n = strcspn(path, ".");
        value = get(value, path, n);
        if (value == NULL || path[n] == '\0') return value;
        path += n + 1;
    }
}

size_t bn_json_size(const bn_json *value)
{
    size_t n = 0;
    for (const bn_json *m = bn_json_first(value); m != NULL; m = bn_json_next(m))
        n++;
    return n;
}

const bn_json *bn_json_at(const bn_json *value, size_t i)
{
    const bn_json *m = bn_json_first(value);
    while (m != NULL && i-- > 0)
        m = bn_json_next(m);
    return m;
}

const bn_json *bn_json_first(const bn_json *value)
{
    return value == NULL ? NULL : (const bn_json *)((const cJSON *)value)->child;
}

const bn_json *bn_json_next(const bn_json *value)
{
    return value == NULL ? NULL : (const bn_json *)((const cJSON *)value)->next;
}

const char *bn_json_name(const bn_json *member)
{
    return member == NULL ? NULL : ((const cJSON *)member)->string;
}

bool bn_json_string(const bn_json *value, const char **out)
{
    if (!cJSON_IsString((const cJSON *)value)) return false;
    *out = ((const cJSON *)value)->valuestring;
    return true;
}

bool bn_json_number(const bn_json *value, double *out)
{
    if (!cJSON_IsNumber((const cJSON *)value)) return false;
    *out = ((const cJSON *)value)->valuedouble;
    return true;
}

bool bn_json_u64(const bn_json *value, uint64_t *out)
{
    double number;
    if (!bn_json_number(value, &number) || !(number >= 0 && number < EXACT)) return false;
    uint64_t whole = (uint64_t)number;
    if ((double)whole < number) return false;
    *out = whole;
    return true;
}

bool bn_json_bool(const bn_json *value, bool *out)
{
    if (!cJSON_IsBool((const cJSON *)value)) return false;
    *out = cJSON_IsTrue((const cJSON *)value);
    return true;
}

/* ---- building ---- */

/* A bit of cJSON's type, above those that it uses: memory was short for a member or an element of this value.
 */
#define INCOMPLETE (1 << 16)

/* Takes item over, which may be NULL when memory was short. */
static bn_json *put(bn_json *parent, const char *name, cJSON *item)
{
    bool ok = item != NULL;
    if (ok && parent != NULL && name != NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive((cJSON *)parent, name);
        ok = cJSON_AddItemToObject((cJSON *)parent, name, item);
    } else if (ok && parent != NULL) {
        ok = cJSON_AddItemToArray((cJSON *)parent, item);
    }
    if (!ok && parent != NULL) ((cJSON *)parent)->type |= INCOMPLETE;
    if (ok && parent != NULL) return (bn_json *)item;
    cJSON_Delete(item);
    return NULL;
}

bn_json *bn_json_new_object(void)
{
    use_our_memory();
    return (bn_json *)cJSON_CreateObject();
}

bn_json *bn_json_new_array(void)
{
    use_our_memory();
    return (bn_json *)cJSON_CreateArray();
}

bn_json *bn_json_put_object(bn_json *object, const char *name)
{
    return object == NULL ? NULL : put(object, name, cJSON_CreateObject());
}

bn_json *bn_json_put_array(bn_json *object, const char *name)
{
    return object == NULL ? NULL : put(object, name, cJSON_CreateArray());
}

static cJSON *number_of_u64(uint64_t value)
{
    if (value < EXACT_U64) return cJSON_CreateNumber((double)value);
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return cJSON_CreateString(digits);
}

static cJSON *number_of_double(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

static cJSON *text_of(const char *value)
{
    return value == NULL ? cJSON_CreateNull() : cJSON_CreateString(value);
}

void bn_json_put_string(bn_json *object, const char *name, const char *value)
{
    if (object != NULL) put(object, name, text_of(value));
}

void bn_json_put_u64(bn_json *object, const char *name, uint64_t value)
{
    if (object != NULL) put(object, name, number_of_u64(value));
}

void bn_json_put_number(bn_json *object, const char *name, double value)
{
    if (object != NULL) put(object, name, number_of_double(value));
}

void bn_json_put_bool(bn_json *object, const char *name, bool value)
{
    if (object != NULL) put(object, name, cJSON_CreateBool(value));
}

void bn_json_put_null(bn_json *object, const char *name)
{
    if (object != NULL) put(object, name, cJSON_CreateNull());
}

void bn_json_put_unavailable(bn_json *object, const char *name, const char *reason)
{
    if (object == NULL) return;
    cJSON *reasons = cJSON_GetObjectItemCaseSensitive((cJSON *)object, "unavailable");
    bn_json *why = reasons != NULL ? (bn_json *)reasons : bn_json_put_object(object, "unavailable");
    bn_json_put_null(object, name);
    bn_json_put_string(why, name, reason);
}

bn_json *bn_json_add_object(bn_json *array)
{
    return array == NULL ? NULL : put(array, NULL, cJSON_CreateObject());
}

bn_json *bn_json_add_array(bn_json *array)
{
    return array == NULL ? NULL : put(array, NULL, cJSON_CreateArray());
}

void bn_json_add_string(bn_json *array, const char *value)
{
    if (array != NULL) put(array, NULL, text_of(value));
}

void bn_json_add_u64(bn_json *array, uint64_t value)
{
    if (array != NULL) put(array, NULL, number_of_u64(value));
}

void bn_json_add_number(bn_json *array, double value)
{
    if (array != NULL) put(array, NULL, number_of_double(value));
}

void bn_json_put_copy(bn_json *object, const char *name, const bn_json *value)
{
    if (object != NULL && value != NULL) put(object, name, cJSON_Duplicate((const cJSON *)value, 1));
}

void bn_json_add_copy(bn_json *array, const bn_json *value)
{
    if (array != NULL && value != NULL) put(array, NULL, cJSON_Duplicate((const cJSON *)value, 1));
}

void bn_json_remove(bn_json *object, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive((cJSON *)object, name);
}

/* ---- writing ---- */

/* What is not UTF-8 becomes U+FFFD, so that the text can be read back. */
void bn_json_write_string(struct bn_buf *out, const char *text)
{
    static const char SHORT[] = "\bb\tt\nn\ff\rr\"\"\\\\"; /* pairs: the character, its letter */
    const unsigned char *in = (const unsigned char *)text;
    size_t n = strlen(text);
    bn_buf_putc(out, '"');
    for (size_t i = 0; i < n;) {
        const char *pair = SHORT;
        while (*pair != '\0' && (unsigned char)*pair != in[i])
            pair += 2;
        size_t length = bn_utf8_length((const char *)in + i, n - i);
        if (*pair != '\0')
            bn_buf_printf(out, "\\%c", pair[1]);
        else if (in[i] < 0x20)
            bn_buf_printf(out, "\\u%04x", (unsigned)in[i]);
        else if (length == 0)
            bn_buf_puts(out, "\xEF\xBF\xBD");
        else
            bn_buf_append(out, in + i, length);
        i += length == 0 ? 1 : length;
    }
    bn_buf_putc(out, '"');
}

/* The shortest digits that read back as value, which is finite and positive: value = 0.d1 d2 ... * 10^point.
 * Returns how many. Nothing here depends on the locale's decimal point. */
static int shortest_digits(double value, char digits[20], int *point)
{
    char text[40];
    int precision = value < DBL_MIN ? 0 : DBL_DIG - 1; /* subnormals have fewer digits than 15 */
    do
        snprintf(text, sizeof text, "%.*e", precision, value);
    while (strtod(text, NULL) != value && precision++ < DBL_DECIMAL_DIG);
    int n = 0;
    const char *c = text;
    for (; *c != '\0' && *c != 'e'; c++)
        if (*c >= '0' && *c <= '9' && n < 19) digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    *point = (int)strtol(*c == 'e' ? c + 1 : c, NULL, 10) + 1;
    return n;
}

void bn_json_write_number(struct bn_buf *out, double value)
{
    char digits[20];
    int point;
    if (!isfinite(value)) {
        bn_buf_puts(out, "null");
        return;
    }
    if (signbit(value)) bn_buf_putc(out, '-');
    value = fabs(value);
    if (value < EXACT && floor(value) >= value) {
        bn_buf_printf(out, "%.0f", value);
        return;
    }
    int n = shortest_digits(value, digits, &point);
    if (point > 21 || point < -5) {
        bn_buf_putc(out, digits[0]);
        if (n > 1) bn_buf_printf(out, ".%s", digits + 1);
        bn_buf_printf(out, "e%+d", point - 1);
    } else if (point <= 0) {
        bn_buf_puts(out, "0.");
        for (int i = point; i < 0; i++)
            bn_buf_putc(out, '0');
        bn_buf_puts(out, digits);
    } else if (point < n) {
        bn_buf_append(out, digits, (size_t)point);
        bn_buf_printf(out, ".%s", digits + point);
    } else {
        bn_buf_puts(out, digits);
        for (int i = n; i < point; i++)
            bn_buf_putc(out, '0');
    }
}

static void new_line(struct bn_buf *out, unsigned depth)
{
    bn_buf_putc(out, '\n');
    for (unsigned i = 0; i < depth; i++)
        bn_buf_puts(out, "  ");
}

static bool is_row(const cJSON *array)
{
    for (const cJSON *v = array->child; v != NULL; v = v->next)
        if (!cJSON_IsNumber(v) && !cJSON_IsBool(v) && !cJSON_IsNull(v)) return false;
    return true;
}

static bool write_value(const cJSON *value, bool canonical, unsigned depth, struct bn_buf *out);

/* Rows of numbers stay on one line when indented. */
static bool write_array(const cJSON *array, bool canonical, unsigned depth, struct bn_buf *out)
{
    bool ok = true, row = is_row(array);
    bn_buf_putc(out, '[');
    for (const cJSON *v = array->child; v != NULL && ok; v = v->next) {
        if (!canonical && !row) new_line(out, depth + 1);
        ok = write_value(v, canonical, depth + 1, out);
        if (v->next != NULL) bn_buf_puts(out, !canonical && row ? ", " : ",");
    }
    if (!canonical && !row) new_line(out, depth);
    bn_buf_putc(out, ']');
    return ok;
}

static bool write_object(const cJSON *object, bool canonical, unsigned depth, struct bn_buf *out)
{
    size_t n = 0;
    const cJSON **sorted = canonical ? sorted_members(object, &n) : NULL;
    if (canonical && sorted == NULL) return false;
    bool ok = true;
    size_t i = 0;
    bn_buf_putc(out, '{');
    for (const cJSON *m = object->child; m != NULL && ok; m = m->next, i++) {
        const cJSON *member = canonical ? sorted[i] : m;
        if (i > 0) bn_buf_putc(out, ',');
        if (!canonical) new_line(out, depth + 1);
        bn_json_write_string(out, member->string);
        bn_buf_puts(out, canonical ? ":" : ": ");
        ok = write_value(member, canonical, depth + 1, out);
    }
    if (!canonical && i > 0) new_line(out, depth);
    bn_buf_putc(out, '}');
    bn_free(sorted);
    return ok;
}

static bool write_value(const cJSON *value, bool canonical, unsigned depth, struct bn_buf *out)
{
    if (depth > BN_JSON_MAX_DEPTH) out->failed = true;
    if (out->failed) return true;
    if ((value->type & INCOMPLETE) != 0) return false;
    if (cJSON_IsArray(value)) return write_array(value, canonical, depth, out);
    if (cJSON_IsObject(value)) return write_object(value, canonical, depth, out);
    if (cJSON_IsString(value))
        bn_json_write_string(out, value->valuestring);
    else if (cJSON_IsNumber(value))
        bn_json_write_number(out, value->valuedouble);
    else
        bn_buf_puts(out, cJSON_IsTrue(value) ? "true" : cJSON_IsFalse(value) ? "false" : "null");
    return true;
}

bool bn_json_is_complete(const bn_json *value)
{
    if (value == NULL || (((const cJSON *)value)->type & INCOMPLETE) != 0) return false;
    for (const bn_json *m = bn_json_first(value); m != NULL; m = bn_json_next(m))
        if (!bn_json_is_complete(m)) return false;
    return true;
}

bn_status bn_json_write(const bn_json *value, bool canonical, struct bn_buf *out, bn_error *err)
{
    if (value == NULL || !write_value((const cJSON *)value, canonical, 0, out)) return bn_nomem(err);
    return bn_buf_check(out, err);
}
