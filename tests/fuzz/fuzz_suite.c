/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the configuration file of bn-bench suite: its YAML, its keys, and the processes that follow. A
 * refusal has a message. A file that is accepted gives processes with names and arguments.
 */
#include "tests/fuzz/fuzz.h"

#include "tools/bench/suite/suite.h"

static void read_yaml(const char *text, size_t n)
{
    struct bn_yaml yaml = {0};
    bool read = succeeds(bn_yaml_parse(&yaml, text, n, &err));
    for (size_t i = 0; read && i < yaml.n; i++) {
        const struct bn_yaml_value *v = &yaml.list[i];
        hold(strchr(v->key, '.') != NULL && v->line > 0 && v->text != NULL);
        hold(v->list || i == 0 || v[-1].key != v->key);
    }
    bn_yaml_release(&yaml);
}

/* The first command of bn-bench. */
static const struct bn_command RUN[] = {{.name = "run",
                                         .summary = "",
                                         .synopsis = "",
                                         .options = {bn_bench_run_options},
                                         .json = true,
                                         .run = bn_bench_run},
                                        {0}};
static const struct bn_program PROGRAM = {
    .name = "bn-bench", .commands = RUN, .bytes = sizeof(struct bn_bench_options)};

static void read_plan(const char *path)
{
    struct bn_suite_plan plan = {.program = &PROGRAM};
    bool read = succeeds(bn_suite_read(&plan, path, &err));
    for (size_t i = 0; read && i < plan.n_parts; i++) {
        const struct bn_suite_part *part = &plan.parts[i];
        hold(part->label[0] != '\0' && part->file[0] != '.');
        hold(part->words.n >= 1 && part->words.list[part->words.n] == NULL);
    }
    bn_suite_release(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bn_buf text = {.max = SIZE_MAX};
    bn_buf_append(&text, data, size);
    hold(!text.failed);
    read_yaml(bn_buf_text(&text), size);
    read_plan(fuzz_file(data, size));
    bn_buf_release(&text);
    return 0;
}
