/* SPDX-License-Identifier: MIT
 *
 * bn-flamegraph: where the time goes. This file is the table of its commands; they are in flamegraph/, each
 * with its options.
 */
#include "tools/cli/programs.h"
#include "tools/flamegraph/flamegraph.h"

static const struct bn_command COMMANDS[] = {
    {.name = "record",
     .summary = "sample a program, or a model's generation, and write its stacks",
     .text =
         "Everything behind -- is a program and its arguments; without it, a model generates in this "
         "process. How samples are taken is chosen by trying: a way that is refused, or that brings none, is "
         "passed over, and the file says why. Without a sample nothing is written and the exit status is 1."
         "\n\nWhere perf events are refused, the program loads a library by LD_PRELOAD; so do the programs "
         "that it starts while the recording lasts. The file of the library is in bn-sampler-UID below "
         "XDG_RUNTIME_DIR, /run (for root), XDG_CACHE_HOME or ~/.cache, a folder that no other user can "
         "change. Static programs, set-user-ID programs and programs started by system calls of their own "
         "are not recorded so.",
     .synopsis = "[options] [-o FILE]... [-- COMMAND [ARGUMENTS]]",
     .options = {bn_flamegraph_record_outputs, bn_flamegraph_record_options, bn_flamegraph_workload_options,
                 bn_flamegraph_view_options, bn_flamegraph_picture_options},
     .run = bn_flamegraph_record,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "COMMAND",
     .examples = {{"bn-flamegraph record -o run.json -o run.svg -- ./program --fast",
                   "record a program; keep the stacks, and draw them"},
                  {"bn-flamegraph record -r 5 -F 4999 -o before.json -- ./program",
                   "five runs, for a comparison later"}}},
    {.name = "render",
     .summary = "draw stacks as a flame graph: one SVG file that loads nothing",
     .text = "Draws the stacks of all files and runs together. The picture can be read anywhere. Opened in a "
             "browser it can be zoomed (click, Enter, Escape) and searched (Ctrl-F or /, then n and N, also "
             "for frames that are too narrow to be drawn), turned upside down, and walked with the arrow "
             "keys; its address keeps zoom and search. The same stacks and options give the same bytes.",
     .synopsis = "[FILE...] [-o FILE] [--title TEXT] [--tags LIST] [--palette bitnet|safe]",
     .options = {bn_flamegraph_output_option, bn_flamegraph_picture_options, bn_flamegraph_view_options},
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .examples = {{"bn-flamegraph render run.json -o run.svg", "a picture of what was recorded"},
                  {"bn-flamegraph render --tags phase,layer run.json -o layers.svg",
                   "the same, divided by phase and layer"},
                  {"perf script | bn-flamegraph render --title 'my program' >perf.svg",
                   "of what perf recorded"}},
     .run = bn_flamegraph_render},
    {.name = "text",
     .summary = "print where the time goes: a table of functions, or the tree of calls",
     .text = "self is what was spent in a function itself, total also what was spent in what it called; a "
             "function that calls itself counts once. +- is half of the 95 % interval of the share: of "
             "samples Wilson's, of measured times Student's over the runs; a dash where it cannot be had.",
     .synopsis = "[--top N] [--sort self|total] [FILE...]\n--tree [--min PERCENT] [FILE...]",
     .options = {bn_flamegraph_text_options, bn_flamegraph_output_option, bn_flamegraph_view_options},
     .json = true,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .examples = {{"bn-flamegraph text stacks.json", "the functions that the time went into"},
                  {"bn-flamegraph text --tree --tags phase,layer,brick stacks.json",
                   "what each layer's bricks took"}},
     .run = bn_flamegraph_text},
    {.name = "fold",
     .summary = "print stacks as folded text, one line for each call path",
     .text =
         "Reads what `bn-flamegraph record` wrote, and what others write: profiles of bn-run, the text of "
         "`perf script`, speedscope's files, folded text. Several files are added up. The first line names "
         "the unit; then each line is a call path, the outermost frame first, and its weight, sorted. Frames "
         "of the operating system end in _[k], inlined ones in _[i]; a semicolon in a name becomes a colon.",
     .synopsis = "[--tags LIST] [--root NAME] [-o FILE] [FILE...]",
     .options = {bn_flamegraph_output_option, bn_flamegraph_view_options},
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .examples = {{"bn-flamegraph fold stacks.json", "the functions, without tags"},
                  {"perf script | bn-flamegraph fold --tags thread -", "what perf recorded, by thread"}},
     .run = bn_flamegraph_fold},
    {.name = "export",
     .summary = "write stacks for speedscope, Firefox Profiler, pprof, Chrome, KCachegrind",
     .text =
         "json is the project's own document, bn.stacks/1: without an option of the view it has everything, "
         "runs and tags and measured times. The others have all runs added up (chrome: each as a thread) "
         "and, as elsewhere, no tags unless --tags asks for them. speedscope: https://www.speedscope.app. "
         "firefox: https://profiler.firefox.com, \"Load a profile from file\". pprof: `pprof -http=: FILE`. "
         "chrome: https://ui.perfetto.dev. callgrind: `kcachegrind FILE`, `callgrind_annotate FILE`. Weights "
         "in pprof and callgrind are whole numbers, whose sum is the rounded sum.",
     .synopsis = "[--format FORMAT] [--tags LIST] [--root NAME] [-o FILE] [FILE...]",
     .options = {bn_flamegraph_export_options, bn_flamegraph_output_option, bn_flamegraph_view_options},
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .examples = {{"bn-flamegraph export stacks.json -o stacks.speedscope.json", "for speedscope"},
                  {"bn-flamegraph export --format pprof -o stacks.pb.gz stacks.json", "for pprof"},
                  {"perf script | bn-flamegraph export --format json -o stacks.json -",
                   "keep what perf recorded as a document"}},
     .run = bn_flamegraph_export},
    {.name = "diff",
     .summary = "what changed between two sets of recordings",
     .text = "Puts the paths of both sides on one tree, and says for each function what it had of the time "
             "before and after, alone and with all it calls. Runs of one side are compared with those of the "
             "other: with two or more on each side a difference must exceed what runs of the same side "
             "differ by; with one, only what samples differ by, which is less than what runs do.\n\nFrames "
             "are matched by name. Each file is a run, or several.",
     .synopsis = "BEFORE... --vs AFTER... [-o FILE] [--fail-above PERCENT]",
     .options = {bn_flamegraph_output_option, bn_flamegraph_diff_options, bn_flamegraph_view_options,
                 bn_flamegraph_picture_options},
     .json = true,
     .min_operands = 2,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .examples = {{"bn-flamegraph diff old*.json --vs new*.json", "a table of what changed"},
                  {"bn-flamegraph diff old*.json --vs new*.json -o diff.svg", "the same as a picture"},
                  {"bn-flamegraph diff old*.json --vs new*.json --fail-above 1",
                   "exit 1 when a function takes over one point more of the time"}},
     .run = bn_flamegraph_diff},
    {.name = "bricks",
     .summary = "show what the profiler measured, and whether samples agree with it",
     .text = "The time of each brick (docs/explain/profiling.md), of profiles and of recordings of a model. "
             "Where there are samples beside it, the share of samples in each brick is compared with the "
             "share of measured time, and in each kernel by the name of the function that ran. Without FILE "
             "a model is recorded now. The exit status is 1 when they do not agree.",
     .synopsis = "FILE... [--check]\n[options of record] [--check]",
     .options = {bn_flamegraph_bricks_options, bn_flamegraph_output_option, bn_flamegraph_record_options,
                 bn_flamegraph_workload_options},
     .json = true,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .run = bn_flamegraph_bricks,
     .examples = {{"bn-flamegraph bricks profile.json", "what bn-run --profile measured, as a tree"},
                  {"bn-flamegraph bricks --check -r 5",
                   "record a generation five times: do samples and stamps agree?"}}},
    {.name = "doctor",
     .summary = "try what this machine lets a sampler see, and say what would change it",
     .text = "Each way of sampling is tried for some milliseconds. The exit status is 9 when none works.",
     .synopsis = "[--json]",
     .run = bn_flamegraph_doctor,
     .json = true,
     .examples = {{"bn-flamegraph doctor", "what works here, and what does not and why"}}},
    {.name = "baseline",
     .summary = "record the two workloads that are kept, with pictures, pages and an index",
     .text =
         "Records \"2+2=\" with one token and \"What is 2+2?\" with ten, greedily, and writes phase2_1tok "
         "and phase2_10tok (.svg, .md, .json) and README.md into DIR, docs/baselines/perf/flamegraphs "
         "without it. All files are put in place together, at the end: a failure leaves the old ones.\n\nThe "
         "model is MODEL, --model, models/microsoft-bitnet-b1.58-2B-4T-gguf/ggml-model-i2_s.gguf, "
         "models/ggml-model-i2_s.gguf, ./ggml-model-i2_s.gguf, what bn-download fetched as "
         "bitnet-b1.58-2b-4t, or the built-in model: the first that is there. TOKENIZER is "
         "accepted and not used: a GGUF file has its own. \"-\" stands for an argument that is not given.",
     .synopsis = "[MODEL [TOKENIZER [DIR]]] [--archive] [--redraw]",
     .options = {bn_flamegraph_baseline_options, bn_flamegraph_record_options},
     .json = true,
     .max_operands = 3,
     .operand = "MODEL, TOKENIZER or DIR",
     .run = bn_flamegraph_baseline,
     .examples = {{"bn-flamegraph baseline", "record with the model that is found"},
                  {"bn-flamegraph baseline --archive model.gguf - /tmp/graphs",
                   "record a model into another folder, and keep a copy there"},
                  {"bn-flamegraph baseline --redraw", "draw the recordings that are there anew"}}},
    {.name = "timeline",
     .summary = "show what the kept recordings say, one after the other",
     .text = "Reads DIR/archives, which baseline --archive fills: of each recording the shares of classes "
             "and the functions with most of the time, and what changed significantly since the one before.",
     .synopsis = "[DIR] [--html]",
     .options = {bn_flamegraph_timeline_options},
     .json = true,
     .max_operands = 1,
     .operand = "DIR",
     .run = bn_flamegraph_timeline,
     .examples = {{"bn-flamegraph timeline", "what became of the baselines"},
                  {"bn-flamegraph timeline --html /tmp/graphs",
                   "a page with plots, /tmp/graphs/timeline.html, too"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-flamegraph",
    .summary = BN_SUMMARY_FLAMEGRAPH,
    .text = "Samples a run of a model, or any program, by the best way that the machine permits, without "
            "privileges; names the functions; draws them. What was asked for and what came, why better ways "
            "were refused, and how many samples could not be told, stands with every picture.",
    .commands = COMMANDS,
    .exits = {{"1", "a difference over the limit, views that do not agree, or a recording without samples"},
              {"9", "nothing here can be sampled: the message says what each way lacks"}},
    .see_also = "bn-bench(1), bn-run(1), bn(7)",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
