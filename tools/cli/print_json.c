/* SPDX-License-Identifier: MIT
 *
 * Prints one JSON document on standard output; see print_json.h.
 */
#include "tools/cli/print_json.h"

#include <stdio.h>

#include "base/error.h"
#include "tools/cli/report.h"

#define MAX_BYTES (256u << 20)

bn_status bn_cli_print_json(const bn_json *document, bn_error *err)
{
    struct bn_buf text = {.max = MAX_BYTES};
    bn_status status = bn_json_write(document, false, &text, err);
    if (status == BN_OK) {
        bn_report_json_began();
        /* Bytes that are lost are noticed when the program ends. */
        fwrite(text.data, 1, text.len, stdout);
        if (text.len == 0 || text.data[text.len - 1] != '\n') putchar('\n');
    }
    bn_buf_release(&text);
    return status;
}
