/* SPDX-License-Identifier: MIT
 *
 * Strings: of any length or of a length in characters, of a pattern, or of a format.
 */
#include "base/error.h"
#include "grammar/schema.h"

#define DATE                                                                                                   \
    "[12] [0-9]{3} \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01]) | "       \
    "(\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | \"02-\" (\"0\" [1-9] | \"1\" [0-9] | " \
    "\"2\" [0-8]))"
#define HOUR "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9]"
#define TIME HOUR " \":\" [0-5] [0-9] (\".\" [0-9]{1,6})? (\"Z\" | [-+] " HOUR ")"
#define OCTET "(\"25\" [0-5] | \"2\" [0-4] [0-9] | \"1\" [0-9] [0-9] | [1-9] [0-9] | [0-9])"
#define LABEL "[a-z0-9] ([a-z0-9-]{0,30} [a-z0-9])?"
#define HOST LABEL " (\".\" " LABEL "){1,4}"

static const struct {
    const char *name, *text;
} FORMATS[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE " \"T\" " TIME},
    {"uuid", "hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}"},
    {"email", "[a-zA-Z0-9_+-]{1,32} (\".\" [a-zA-Z0-9_+-]{1,32}){0,3} \"@\" " HOST},
    {"hostname", HOST},
    {"ipv4", OCTET " (\".\" " OCTET "){3}"},
    {"uri", "\"http\" \"s\"? \"://\" " HOST " (\":\" [1-9] [0-9]{0,3})? (\"/\" [a-zA-Z0-9._~-]*)* "
            "(\"?\" [a-zA-Z0-9._~=&-]*)? (\"#\" [a-zA-Z0-9._~-]*)?"},
};

static bn_status put_format(struct bn_schema *s, const bn_json *format, struct bn_buf *e)
{
    const char *name = "";
    (void)bn_json_string(format, &name);
    for (size_t i = 0; i < BN_ARRAY_LEN(FORMATS); i++)
        if (strcmp(FORMATS[i].name, name) == 0) {
            bn_buf_printf(e, "(\"\\\"\" %s \"\\\"\")", FORMATS[i].text);
            return BN_OK;
        }
    return bn_schema_refuse(s, "format",
                            "is not one of date, time, date-time, uuid, email, hostname, ipv4, uri");
}

bn_status bn_schema_put_string(struct bn_schema *s, const bn_json *schema, struct bn_buf *e)
{
    const bn_json *pattern = bn_json_get(schema, "pattern"), *format = bn_json_get(schema, "format");
    uint32_t min = 0, max = BN_GRAMMAR_UNLIMITED;
    const char *text;
    BN_TRY(bn_schema_count(s, schema, "minLength", &min));
    BN_TRY(bn_schema_count(s, schema, "maxLength", &max));
    bool lengths = min > 0 || max != BN_GRAMMAR_UNLIMITED;
    if ((pattern != NULL) + (format != NULL) + lengths > 1)
        return bn_schema_refuse(s, pattern != NULL ? "pattern" : "format",
                                "is not supported beside a length or a format");
    if (format != NULL) return put_format(s, format, e);
    if (pattern != NULL) {
        if (!bn_json_string(pattern, &text)) return bn_schema_refuse(s, "pattern", "is not a text");
        return bn_schema_put_pattern(s, text, e);
    }
    if (max < min) return bn_schema_refuse(s, "maxLength", "is below minLength");
    if (!lengths)
        bn_buf_puts(e, "string");
    else if (max == BN_GRAMMAR_UNLIMITED)
        bn_buf_printf(e, "(\"\\\"\" char{%u,} \"\\\"\")", min);
    else
        bn_buf_printf(e, "(\"\\\"\" char{%u,%u} \"\\\"\")", min, max);
    return BN_OK;
}
