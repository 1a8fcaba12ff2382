/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph render, export and fold: draw stacks, or write them for other programs. Also the title and subtitle of all pictures.
 */
#include <string.h>

#include "lab/report/units.h"
#include "tools/flamegraph/flamegraph.h"

#define MAX_TITLE 65536u

const struct bn_option bn_flamegraph_picture_options[] = {
    BN_OPTION("title", "heading of the picture", .arg = "TEXT", .group = "Picture",
              BN_TO_TEXT(struct bn_flamegraph_options, picture.title)),
    BN_RARE("notes", "line below the picture", .arg = "TEXT",
            BN_TO_TEXT(struct bn_flamegraph_options, picture.notes)),
    BN_RARE("width", "width of the picture, 100 to 20000 [window width]", .arg = "PX",
            BN_TO_F64(struct bn_flamegraph_options, picture.width, 100, 20000)),
    BN_OPTION("palette", "colours; safe: for colour-blind readers", .arg = "bitnet|safe", .preset = "bitnet",
              BN_TO_CHOICE(struct bn_flamegraph_options, picture.palette)),
    {0},
};

/* ---- what a picture is of ---- */

/* The beginning of a prompt, as long as a title has room for. */
static void put_prompt(struct bn_buf *out, const char *prompt)
{
    size_t n = strlen(prompt), most = 60;
    if (n <= most) {
        bn_buf_puts(out, prompt);
        return;
    }
    while (most > 0 && ((unsigned char)prompt[most] & 0xC0) == 0x80)
        most--;
    bn_buf_append(out, prompt, most);
    bn_buf_puts(out, "...");
}

void bn_flamegraph_put_title(struct bn_buf *out, const bn_json *about)
{
    const bn_json *work = bn_json_get(about, "workload");
    const char *word;
    if (work != NULL) {
        const char *model = bn_json_text_of(about, "model.name"), *slash = strrchr(model, '/');
        bn_buf_printf(out, "%s: \"", slash != NULL ? slash + 1 : model);
        put_prompt(out, bn_json_text_of(work, "prompt"));
        bn_buf_puts(out, "\" and ");
        bn_units_count(out, (uint64_t)bn_json_count_of(work, "n_predict"), "token");
    }
    const bn_json *command = work == NULL ? bn_json_get(about, "command") : NULL;
    for (const bn_json *w = bn_json_first(command); w != NULL; w = bn_json_next(w))
        if (bn_json_string(w, &word)) bn_buf_printf(out, out->len > 0 ? " %s" : "%s", word);
    if (out->len == 0) bn_buf_puts(out, "Flame graph");
}

static void put_subtitle(struct bn_buf *out, const bn_stacks *stacks)
{
    const bn_json *about = stacks->about;
    const char *tier = bn_json_text_of(about, "sampler.tier"), *commit = NULL;
    const char *cpu = bn_json_text_of(about, "machine.cpu_model");
    char others[BN_FLAMEGRAPH_OTHERS_ROOM];
    bn_flamegraph_describe_others(others, about);
    uint64_t samples = bn_stacks_count_samples(stacks);
    if (stacks->what[0] != '\0') bn_buf_printf(out, "%s", stacks->what);
    if (samples > 0)
        bn_buf_printf(out, "%s%llu samples", out->len > 0 ? ", " : "", (unsigned long long)samples);
    if (tier[0] != '\0') bn_buf_printf(out, " by %s", tier);
    if (stacks->n_runs > 1) bn_buf_printf(out, ", %zu runs", stacks->n_runs);
    if (bn_json_get(about, "created") != NULL) bn_buf_printf(out, ", %s", bn_json_text_of(about, "created"));
    if (bn_json_string(bn_json_path(about, "git.commit"), &commit))
        bn_buf_printf(out, ", commit %.12s", commit);
    if (cpu[0] != '\0') bn_buf_printf(out, ", %s", cpu);
    if (others[0] != '\0') bn_buf_printf(out, "; busy machine: %s", others);
}

bn_status bn_flamegraph_write(struct bn_buf *out, enum bn_stacks_format format, const bn_stacks *stacks,
                              struct bn_svg_options options, bn_error *err)
{
    struct bn_buf title = {.max = MAX_TITLE}, subtitle = {.max = MAX_TITLE};
    if (format != BN_STACKS_SVG) return bn_stacks_write(stacks, format, out, err);
    bn_flamegraph_put_title(&title, stacks->about);
    if (options.title != NULL) bn_buf_printf(&subtitle, "%s; ", title.data); /* the work is always named */
    put_subtitle(&subtitle, stacks);
    if (options.title == NULL) options.title = title.data;
    options.subtitle = subtitle.data;
    bn_status status = bn_svg(out, stacks, NULL, &options, err);
    bn_buf_release(&title);
    bn_buf_release(&subtitle);
    return status;
}

/* ---- the commands ---- */

const struct bn_option bn_flamegraph_export_options[] = {
    BN_OPTION("format", "output format [from FILE's name, or speedscope]", .letter = 'f',
              .arg = "json|folded|speedscope|pprof|chrome",
              BN_TO_CHOICE(struct bn_flamegraph_options, format)),
    {0},
};

/* The format that export was asked for. */
static bn_status choose_format(enum bn_stacks_format *format, const struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    bool given = bn_args_given(args, &o->format), named = o->output != NULL && strcmp(o->output, "-") != 0;
    *format = given ? o->format : named ? bn_stacks_format_by_name(o->output) : BN_STACKS_SPEEDSCOPE;
    if (*format == BN_STACKS_NO_FORMAT)
        return bn_hint(bn_fail(err, BN_ERR_ARG, "--output: unknown format '%.100s'", o->output), err,
                       "use --format");
    if (*format >= BN_STACKS_FORMATS) *format = BN_STACKS_SPEEDSCOPE; /* the name is refused then */
    return BN_OK;
}

bn_status bn_flamegraph_convert(struct bn_args *args, bn_error *err)
{
    const struct bn_flamegraph_options *o = args->fields;
    bool view = o->tags != NULL || o->root != NULL || o->measured || o->picture.callers || o->merge_inlined;
    bool drawn = strcmp(args->command->name, "render") == 0;
    enum bn_stacks_format format = drawn ? BN_STACKS_SVG : BN_STACKS_FOLDED;
    struct bn_buf out = {.max = BN_FLAMEGRAPH_MAX_BYTES};
    bn_stacks *stacks = NULL;
    if (strcmp(args->command->name, "export") == 0) BN_TRY(choose_format(&format, args, err));
    BN_TRY(bn_flamegraph_check_name(args, format, err));
    BN_TRY(bn_flamegraph_check_callers(args, format, err));
    if (format == BN_STACKS_DOCUMENT && !view)
        BN_TRY(bn_flamegraph_read_operands(&stacks, args, err));
    else
        BN_TRY(bn_flamegraph_open(&stacks, args, drawn, err));
    bn_status status = bn_flamegraph_write(&out, format, stacks, o->picture, err);
    if (status == BN_OK) status = bn_cli_write(o->output, &out, err);
    bn_buf_release(&out);
    bn_stacks_close(stacks);
    return status;
}
