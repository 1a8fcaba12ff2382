/* SPDX-License-Identifier: MIT
 *
 * Reads /proc/kallsyms and finds the kernel function at an address.
 */
#include "lab/symbols/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "lab/kit/order.h"

#define MAX_BYTES (64u << 20)

static int symbol_order(const void *a, const void *b)
{
    const struct bn_kernel_symbol *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    size_t n = strlen(x->name), m = strlen(y->name);
    return n != m ? (n < m ? -1 : 1) : strcmp(x->name, y->name);
}

/* "ffffffff81000000 T _stext\t[module]": ends the name and the module's name where they end. */
static bool take_line(char *line, struct bn_kernel_symbol *out)
{
    char *end;
    out->start = strtoull(line, &end, 16);
    if (out->start == 0 || end[0] != ' ' || end[1] == '\0' || strchr("tTwW", end[1]) == NULL || end[2] != ' ')
        return false;
    char *name = end + 3, *module = name + strcspn(name, " \t[");
    out->module = "";
    if (*module != '\0') {
        char *bracket = strchr(module, '[');
        *module = '\0';
        if (bracket != NULL) {
            bracket[1 + strcspn(bracket + 1, "]")] = '\0';
            out->module = bracket + 1;
        }
    }
    out->name = name;
    return name[0] != '\0';
}

static bn_status read_symbols(struct bn_kernel_names *kernel, const char *path, bn_error *err)
{
    bn_error ignored = {0};
    size_t lines = 0;
    kernel->read = true;
    kernel->text.max = MAX_BYTES;
    if (bn_file_read(path, &kernel->text, &ignored) != BN_OK || kernel->text.data == NULL) return BN_OK;
    for (size_t i = 0; i < kernel->text.len; i++)
        lines += kernel->text.data[i] == '\n';
    kernel->symbols = bn_alloc(lines + 1, sizeof *kernel->symbols);
    if (kernel->symbols == NULL) return bn_nomem(err);
    for (char *line = kernel->text.data, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        kernel->n += take_line(line, &kernel->symbols[kernel->n]);
    }
    if (kernel->n > 0) qsort(kernel->symbols, kernel->n, sizeof *kernel->symbols, symbol_order);
    return BN_OK;
}

bn_status bn_kernel_symbol(struct bn_kernel_names *kernel, const char *path, uint64_t address,
                           const struct bn_kernel_symbol **found, bn_error *err)
{
    *found = NULL;
    if (!kernel->read) BN_TRY(read_symbols(kernel, path != NULL ? path : "/proc/kallsyms", err));
    size_t at;
    BN_SEARCH(at, kernel->n, kernel->symbols[at].start <= address);
    if (at == 0) return BN_OK;
    const struct bn_kernel_symbol *s = &kernel->symbols[at - 1];
    while (s > kernel->symbols && s[-1].start == s->start) /* the first of aliases */
        s--;
    *found = s;
    return BN_OK;
}

void bn_kernel_release(struct bn_kernel_names *kernel)
{
    bn_buf_release(&kernel->text);
    bn_free(kernel->symbols);
    *kernel = (struct bn_kernel_names){0};
}
