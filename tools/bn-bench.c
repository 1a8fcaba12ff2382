/* SPDX-License-Identifier: MIT
 *
 * bn-bench: how fast this machine runs a model, and its limits. This file is the table of commands; each is
 * in a folder of tools/bench, with its options.
 */
#include "tools/bench/bench.h"
#include "tools/bench/harness.h"
#include "tools/bench/history/history.h"
#include "tools/cli/programs.h"

static const struct bn_command COMMANDS[] = {
    {.name = "run",
     .summary = "time prompts and decoding",
     .text = "Prompt tests evaluate a prompt until its first token is chosen; decode tests choose tokens "
             "greedily after a prompt of one token. Tests take turns. The table shows medians with their 95 "
             "% interval (from six samples on, else the range), next to the read bandwidth, which is "
             "measured before each round.\n\nNo sample is dropped. The exit code is 1 when outputs differ "
             "between rounds, thread counts or batches, when the clock does not advance, when a sample "
             "exceeds --timeout, or when a --target is missed or has no data.",
     .synopsis = "[-m MODEL] [-p LIST] [-n LIST] [-d LIST] [-b LIST] [-t LIST] [-r N]\n"
                 "[--generate P+N]... [--score FILE] [--target TARGET]...",
     .options = {bn_bench_run_options},
     .json = true,
     .run = bn_bench_run,
     .follow = bn_bench_run_follow,
     .examples = {{"bn-bench run", "the built-in model"},
                  {"bn-bench run -m model.gguf -p 512 -n 32 -t 1,2",
                   "one prompt and one answer, with 1 and 2 threads"},
                  {"bn-bench run -m model.gguf -p 0 -n 32 -d 0,1024,4096",
                   "time per token after a long context"}}},
    {.name = "limits",
     .summary = "show what this machine could do for a model, and what it reaches",
     .text = "Counts the bytes that a token reads and its multiply-adds, and measures how fast this machine "
             "reads and multiplies: the quotient is the greatest rate. Next to it is the rate of a short "
             "measurement.",
     .synopsis = "[-m MODEL] [-p LIST] [-n LIST] [-d LIST] [-t LIST]",
     .options = {bn_bench_limits_options},
     .json = true,
     .run = bn_bench_limits,
     .examples = {{"bn-bench limits -m model.gguf", "decoding and a prompt, 1 and all threads"},
                  {"bn-bench limits -m model.gguf -p 0 -d 4096", "decoding after a long context"}}},
    {.name = "kernels",
     .summary = "time the kernels, and compare them with the limits of the machine",
     .text =
         "Each kernel is compared with the reference, bit for bit, "
         "and timed. The last column is the percentage of the limit that it reaches, and which limit it "
         "is. Kernels in plain C have no limit. Those of a device: bn-bench profile --device opencl --roofline",
     .synopsis = "[-m MODEL] [--isa NAME|all] [--filter PART] [-t LIST]",
     .options = {bn_bench_kernels_options},
     .json = true,
     .run = bn_bench_kernels,
     .examples = {{"bn-bench kernels", "all kernels with the shapes of the 2B model"},
                  {"bn-bench kernels --filter ternary_gemv --isa all -t 1",
                   "one kernel, each instruction set"},
                  {"bn-bench kernels -m model.gguf --min-time 1 --json", "another model's shapes"}}},
    {.name = "memory",
     .summary = "time allocation, bandwidth and latency; check for leaks",
     .text = "Measures allocation in three patterns, next to calloc; fragmentation; bandwidth and latency by "
             "size of the set; and the memory of a model and a session, which "
             "closing has to free. A rate above the measured limit is INVALID.",
     .synopsis = "[-m MODEL] [--filter PART] [--min-time SECONDS] [-t LIST]",
     .options = {bn_bench_memory_options, bn_bench_harness_options},
     .json = true,
     .run = bn_bench_memory,
     .examples = {{"bn-bench memory", "every memory test"},
                  {"bn-bench memory --filter latency", "latency of a load, by size of the set"}}},
    {.name = "quant",
     .summary = "time quantisation, and measure the error of each format",
     .text = "Weights are quantised and dequantised. Each result is compared with the "
             "reference, bit for bit; one that differs is INVALID. Then follow error and bits of "
             "every format. With --text, the model is converted in memory, and its "
             "perplexity is compared between formats.",
     .synopsis = "[-m MODEL] [--shape ROWSxK]... [--isa NAME|all] [--filter PART] [-t LIST]",
     .options = {bn_bench_quant_options, bn_bench_harness_options},
     .json = true,
     .run = bn_bench_quant,
     .examples = {{"bn-bench quant --shape 2560x6912 -t 1", "one matrix"},
                  {"bn-bench quant --filter quality", "errors and bits only"},
                  {"bn-bench quant --filter perplexity --text text.txt", "perplexity in each format"}}},
    {.name = "profile",
     .summary = "show where the time of a pass goes, brick by brick",
     .text = "A prompt and some decoding run with and without the profiler, in turn; the last profiled run "
             "is shown. For every brick of the forward pass: its own time (self), its percentage of all "
             "bricks and of the wall time of all threads, and the unattributed time. The exit code is 1 when "
             "events were dropped, when sums are not exact, or when bricks account for less than 85 % of the "
             "time.",
     .synopsis = "[-m MODEL] [-p N] [-n N] [-t N] [--level LEVEL] [--roofline]\n--graph FORM "
                 "[--pass PASS] [--what-if BRICK=FACTOR]...\n--code DIGEST\n--check FILE [--check FILE]...",
     .options = {bn_bench_profile_options, bn_bench_profile_graph_options},
     .json = true,
     .run = bn_bench_profile,
     .examples = {{"bn-bench profile", "the built-in model"},
                  {"bn-bench profile --level kernel -t 1", "kernels and the parts of attention too"}}},
    {.name = "train",
     .summary = "time the phases of a training step",
     .text =
         "Trains models of random weights on random tokens with bn-train, and shows the time of a step "
         "and of its phases, operations a second next to the float peak, the rate of each thread, and "
         "memory. Combinations of the lists take turns step by step. A result is INVALID, and the exit code 1, when its phases are longer than the step, when weights or "
         "losses differ between thread counts, or when a rate is above the peak.",
     .synopsis = "[--shape LAYERSxWIDTH[xFFN]]... [--context LIST] [--batch LIST] [-t LIST]",
     .options = {bn_bench_train_options},
     .json = true,
     .divides = true,
     .run = bn_bench_train,
     .examples = {{"bn-bench train", "6 layers of 256, with 1 thread and with all cores"},
                  {"bn-bench train --shape 6x384 --context 256,512 -t 2", "another model, two lengths"}}},
    {.name = "serve",
     .summary = "load a server of OpenAI's API, and show what its clients see",
     .text =
         "Sends the same streamed requests to /v1/completions with each number of clients, and shows the "
         "time to the first token, the times between tokens (gaps), the rate of all answers, and "
         "failures. --interrupt sends one long prompt while all clients are answered.\n\nThe URL is plain HTTP; "
         "without one, bn-serve is started on a free port and ended afterwards. The exit code is 1 "
         "when a request failed, or when the answers of one request differ.",
     .synopsis = "[URL] [--clients LIST] [--prompt N] [--tokens N] [--interrupt N]",
     .options = {bn_bench_serve_options},
     .json = true,
     BN_OPERANDS(0, 1, "URL"),
     .run = bn_bench_serve,
     .examples =
         {
             {"bn-bench serve http://127.0.0.1:8080 --clients 1,2,4,8", "rates and latencies"},
             {"bn-bench serve http://127.0.0.1:8080 --clients 4 --interrupt 2048",
              "how much a long prompt delays answers that run"},
         }},
    {.name = "top",
     .summary = "show where the time of a running program goes, or of a recorded profile",
     .text =
         "Shows a program that was started with --live: the only one, or the one of a process number or "
         "file; or a document of bn-bench profile --json, pass by pass. A row is a brick of the forward pass or a category of bricks: its percentage of the "
         "time, its time in a pass, its events, what it reads and computes per second, its percentage of "
         "the critical path, and its slack.\n\nOn a terminal ? lists the keys. In a pipe frames of text "
         "follow each other until the program ends; with --json they are documents, one a line.",
     .synopsis = "[PID|FILE] [-i MS] [--once] [--pass] [--budget FILE]\n--list",
     .options = {bn_bench_top_options},
     .json = true,
     BN_OPERANDS(0, 1, "PID|FILE"),
     .run = bn_bench_top,
     .examples = {{"bn-serve --live", "in one terminal"},
                  {"bn-bench top", "in another one"},
                  {"bn-bench top --once profile.json", "one frame of a recorded profile"}}},
    {.name = "doctor",
     .summary = "show what this machine can measure, and what disturbs",
     .text = "Tries each source of measurement: clocks, energy, pages, quotas, programs. What is missing is "
             "shown with the reason and what would help. bn-flamegraph doctor shows samplers and counters, "
             "bn-bench limits what the machine reads and computes.",
     .synopsis = "[--require CHECK]...",
     .options = {bn_bench_doctor_options},
     .json = true,
     .run = bn_bench_doctor,
     .examples = {{"bn-bench doctor", "every source"},
                  {"bn-bench doctor --require energy", "exit code 1 without energy counters"}}},
    {.name = "ab",
     .summary = "compare two commands that run in turn",
     .text =
         "Prints three lines: A, B, and what was shown; -v adds all numbers.\n\nEach round runs A, B, and A "
         "again, in an order that cancels a drift of the machine. A series is REGRESSED or IMPROVED when "
         "its interval is beyond --margin and beyond the difference of A from itself, SAME when it is "
         "within the margin, else INCONCLUSIVE, as every time is when fixed work before each run shows "
         "that the machine was disturbed.\n\nThe metric of --metric decides; without it what the commands "
         "print, else the elapsed time. INCONCLUSIVE exits with 0 unless --strict is given; a missing "
         "series and a command that exceeds --timeout exit with 1.",
     .synopsis = "[-r N] [--series] [--extract NAME=REGEX] -- COMMAND_A ... --vs COMMAND_B ...",
     .options = {bn_bench_ab_options, bn_bench_thresholds_option, bn_bench_command_options},
     .json = true,
     BN_OPERANDS(0, BN_OPERANDS_ANY, "COMMAND"),
     .run = bn_bench_ab,
     .examples = {{"bn-bench ab -- old/bn-run -q -p To -n 64 --vs new/bn-run -q -p To -n 64",
                   "wall time, CPU time, memory"},
                  {"bn-bench ab --series -- a/bn-bench run --json --vs b/bn-bench run --json",
                   "every series that both print"},
                  {"bn-bench ab --extract 'tps=([0-9.]+) tok/s:higher' -- ./a --vs ./b",
                   "a number that they print"}}},
    {.name = "cmd",
     .summary = "time a command of your own, and read numbers from its output",
     .text = "Runs the command as fresh processes. Wall time, CPU time, peak memory and each number of "
             "--extract are series; baseline, compare, trend, report and suite take the document. The exit "
             "code is 1 when a run fails, exceeds --timeout, or prints no number.",
     .synopsis = "[-r N] [--name NAME] [--extract NAME=REGEX]... [--series] -- COMMAND ...",
     .options = {bn_bench_cmd_options, bn_bench_command_options},
     .json = true,
     BN_OPERANDS(1, BN_OPERANDS_ANY, "COMMAND"),
     .run = bn_bench_ab,
     .examples = {{"bn-bench cmd -- ./my-program --fast", "wall time, CPU time, memory"},
                  {"bn-bench cmd --extract 'tps=([0-9.]+) tok/s:higher' --json -- ./my-program >mine.json",
                   "a number that it prints, as a document"}}},
    {.name = "compare",
     .summary = "compare two documents",
     .text = "Prints A, B, and what was shown; -v adds the table of all series. Series are paired by test "
             "and metric. The runs were not taken in turn, so a change counts only beyond --drift; one "
             "within it is STABLE, and one across it is INCONCLUSIVE. bn-bench ab finds smaller changes. "
             "When no time or rate can be judged, the exit code is 1. A list of values without samples is "
             "compared with another such list only.",
     .synopsis = "[--drift PERCENT] [--thresholds FILE] A B",
     .options = {bn_bench_thresholds_option, bn_bench_compare_options},
     .json = true,
     BN_OPERANDS(2, 2, "A or B"),
     .run = bn_bench_compare,
     .examples = {{"bn-bench compare before.json after.json", "what changed"}}},
    {.name = "baseline",
     .summary = "save runs, and compare later ones with them",
     .text = "save appends a run to the ledger of its machine and suite. It refuses runs of sources that "
             "differ from the commit, of a program of another commit, or next to busy processes. The first "
             "run of a name is its baseline, for the same machine, settings and model; check compares later "
             "ones with it, and fails without one; promote replaces it, but not by a run that regressed. "
             "docs/howto/measure.md walks through it.",
     .synopsis = "save NAME FILE\nlist\nshow NAME|ID\ncheck FILE [--baseline NAME] [--save-baseline "
                 "NAME]\npromote ID",
     .options = {bn_bench_ledger_options, bn_bench_baseline_options, bn_bench_thresholds_option,
                 bn_bench_compare_options},
     .json = true,
     BN_OPERANDS(0, 3, "ACTION"),
     .run = bn_bench_baseline,
     .examples = {{"bn-bench run --json >run.json", "measure"},
                  {"bn-bench baseline save main run.json", "save a baseline"},
                  {"bn-bench baseline check run.json", "check a later run"}}},
    {.name = "trend",
     .summary = "show figures from run to run, and where they changed",
     .text = "Prints a line for every series of the runs in the ledgers. Where the runs before and after a "
             "point differ by more than shuffled runs do (E-divisive, p < 0.01), and by more than --margin, "
             "it prints the change, its date, the commits around it, and a command that confirms it.",
     .synopsis = "[--suite NAME] [--test PATTERN] [--metric PATTERN]",
     .options = {bn_bench_ledger_options, bn_bench_trend_options},
     .json = true,
     .run = bn_bench_trend,
     .examples = {{"bn-bench trend --suite run --metric ns_per_token",
                   "time per token over all saved runs"}}},
    {.name = "report",
     .summary = "turn documents of bn-bench into text, tables, pages and other formats",
     .text = "Reads documents that bn-bench wrote with --json, ledgers of baselines and profiles, and writes "
             "one report of all of them. Formats for programs have exact figures, formats for people rounded "
             "ones. docs/reference/bench.md describes the formats.",
     .synopsis = "[--format NAME] [-o FILE] FILE...\n--dir DIR FILE...",
     .options = {bn_bench_report_options},
     .json = true,
     BN_OPERANDS(1, BN_OPERANDS_ANY, "FILE"),
     .run = bn_bench_report,
     .examples = {{"bn-bench report run.json", "tables for the terminal"},
                  {"bn-bench report --html report.html run.json ab.json", "a page to look at"},
                  {"bn-bench report --dir benchmark-results run.json",
                   "all files that a build server keeps"}}},
    {.name = "suite",
     .summary = "run the parts of a configuration file, and report on all of them",
     .text = "The file is YAML; docs/howto/measure.md has its keys, and cases, which are any commands. Each "
             "part is a process of its own; its document is kept in the directory, and the report of all "
             "next to it. What did not change is not measured again. The exit code is 1 when a part failed "
             "or a target was missed.",
     .synopsis = "[-o DIR] [--force] [--dry-run] CONFIG.yaml",
     .options = {bn_bench_suite_options},
     .json = true,
     BN_OPERANDS(1, 1, "CONFIG.yaml"),
     .run = bn_bench_suite,
     .examples = {{"bn-bench suite baselines/suite.yaml", "the example: three small models"},
                  {"bn-bench suite --dry-run my.yaml", "the commands that it would run"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-bench",
    .summary = BN_SUMMARY_BENCH,
    .text = "A speed only means something next to the hardware limit, so both are measured together. All "
            "samples are in the JSON document; docs/reference/bench.md describes it.",
    .commands = COMMANDS,
    .bytes = sizeof(struct bn_bench_options),
    .exits = {{"1", "a wrong result, a regression, a gate without data, or an invalid measurement"},
              {"5", "a ledger was changed by hand"},
              {"9", "different machine, settings or model"}},
    .environment = {{"BN_POWERCAP", "for tests: the folder of energy counters [/sys/class/powercap]"}},
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
