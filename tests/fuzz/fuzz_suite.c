/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the configuration file of bn-bench suite: its YAML, its keys, and the processes that follow. A
 * refusal has a message. A file that is accepted gives processes with names and arguments.
 */
#define _GNU_SOURCE /* memfd_create */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/fuzz/fuzz.h"
#include "tools/bench/suite/suite.h"

static void hold(bool ok)
{
    if (!ok) abort();
}

static void read_yaml(const char *text, size_t n)
{
    struct bn_yaml yaml = {0};
    bn_error err = {0};
    bn_status status = bn_yaml_parse(&yaml, text, n, &err);
    hold(status == BN_OK || (err.code == status && err.msg[0] != '\0'));
    for (size_t i = 0; status == BN_OK && i < yaml.n; i++) {
        const struct bn_yaml_value *v = &yaml.list[i];
        hold(strchr(v->key, '.') != NULL && v->line > 0 && (v->text[0] != '\0' || v->quoted));
        hold(v->list || i == 0 || v[-1].key != v->key);
    }
    bn_yaml_release(&yaml);
}

static void read_plan(const char *path)
{
    struct bn_suite_plan plan = {0};
    bn_error err = {0};
    bn_status status = bn_suite_read(&plan, path, &err);
    hold(status == BN_OK || (err.code == status && err.msg[0] != '\0'));
    for (size_t i = 0; status == BN_OK && i < plan.n_parts; i++) {
        const struct bn_suite_part *part = &plan.parts[i];
        hold(part->command != NULL && part->label[0] != '\0' && part->file[0] != '\0');
        hold(part->n >= 2 && part->arguments[part->n] == NULL);
    }
    bn_suite_release(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    struct bn_buf text = {.max = SIZE_MAX};
    bn_buf_append(&text, data, size);
    hold(!text.failed);
    int fd = memfd_create("input", MFD_CLOEXEC);
    hold(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_yaml(bn_buf_text(&text), size);
    read_plan(path);
    close(fd);
    bn_buf_release(&text);
    return 0;
}
