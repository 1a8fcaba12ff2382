/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph render: stacks as a picture.
 */
#include "base/error.h"
#include "flame/svg.h"
#include "tools/flamegraph/flamegraph.h"

#define MAX_BYTES (512u << 20)

const struct bn_option bn_flamegraph_picture_options[] = {
    {.name = "title", .arg = "TEXT", .group = "Picture", .help = "heading of the picture"},
    {.name = "subtitle", .arg = "TEXT", .group = "Picture", .help = "line below the heading"},
    {.name = "notes", .arg = "TEXT", .group = "Picture", .help = "line below the picture"},
    {.name = "width",
     .arg = "PX",
     .group = "Picture",
     .help = "width of the picture, 100 to 20000; without it as wide as the window"},
    {.name = "frame-height",
     .arg = "PX",
     .group = "Picture",
     .preset = "16",
     .help = "height of a frame, 8 to 100"},
    {.name = "min-width",
     .arg = "PX",
     .group = "Picture",
     .preset = "0.1",
     .help = "frames that are narrower are not drawn until they are zoomed into; they are searched all the "
             "same"},
    {.name = "count-name",
     .arg = "TEXT",
     .group = "Picture",
     .help = "what weights count; without it their unit"},
    {.name = "palette",
     .arg = "bitnet|safe",
     .group = "Picture",
     .preset = "bitnet",
     .help = "colours of the classes of functions; safe: for colour-blind eyes"},
    {.name = "search",
     .arg = "RE",
     .group = "Picture",
     .help = "what is searched for when the picture is opened"},
    {.name = "icicle", .group = "Picture", .help = "the root on top, growing downwards"},
    {.name = "cut-left",
     .group = "Picture",
     .help = "names that are too long lose their beginning, not their end"},
    {0},
};

bn_status bn_flamegraph_read_picture(struct bn_svg_options *out, const struct bn_args *args, bn_error *err)
{
    *out = (struct bn_svg_options){.title = bn_opt_str(args, "title"),
                                   .subtitle = bn_opt_str(args, "subtitle"),
                                   .notes = bn_opt_str(args, "notes"),
                                   .count_name = bn_opt_str(args, "count-name"),
                                   .search = bn_opt_str(args, "search"),
                                   .palette = (enum bn_palette)bn_opt_choice(args, "palette"),
                                   .icicle = bn_opt_flag(args, "icicle"),
                                   .cut_left = bn_opt_flag(args, "cut-left")};
    BN_TRY(bn_opt_f64(args, "width", 100, 20000, &out->width, err));
    BN_TRY(bn_opt_f64(args, "frame-height", 8, 100, &out->frame_height, err));
    return bn_opt_f64(args, "min-width", 0, 1000, &out->min_width, err);
}

bn_status bn_flamegraph_render(struct bn_args *args, bn_error *err)
{
    struct bn_svg_options options;
    bn_stacks *stacks = NULL;
    struct bn_buf svg = {.max = MAX_BYTES};
    BN_TRY(bn_flamegraph_read_picture(&options, args, err));
    if (options.title == NULL) options.title = "Flame graph";
    bn_status status = bn_flamegraph_open(&stacks, args, err);
    if (status == BN_OK) status = bn_svg(&svg, stacks, &options, err);
    if (status == BN_OK) status = bn_flamegraph_write(args, &svg, err);
    bn_buf_release(&svg);
    bn_stacks_close(stacks);
    return status;
}
