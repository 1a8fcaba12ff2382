/* SPDX-License-Identifier: MIT
 *
 * bn-bench: how fast this machine runs a model, and its limits. This file is the table of commands; each is
 * in a folder of tools/bench, with its options.
 */
#include "tools/bench/bench.h"
#include "tools/bench/harness.h"
#include "tools/bench/history/compare.h"
#include "tools/bench/history/ledgers.h"
#include "tools/cli/programs.h"

static const struct bn_command COMMANDS[] = {
    {.name = "run",
     .summary = "time prompts and decoding",
     .text = "A prompt test evaluates a prompt until its first token is chosen. A decode test chooses "
             "tokens greedily after a prompt of one token. Tests take turns, so that a change of the "
             "machine affects all of them. Before each round, the read bandwidth is measured on a set as "
             "large as what one token reads. The table shows medians with their 95 % interval (from six "
             "samples on, else the range). A quantile is shown when there are enough samples for it.\n\n"
             "No sample is dropped. Outliers are counted, with the disturbances of the machine during "
             "them. A test is invalid, and the exit code 1, when its output differs between rounds, "
             "thread counts or batches, when the clock does not advance, or when a sample exceeds "
             "--timeout. It is 1, too, when a --target is missed or the run has no data for it.",
     .synopsis = "[-m MODEL] [-p LIST] [-n LIST] [-d LIST] [-b LIST] [-t LIST] [-r N]\n"
                 "[--generate P+N]... [--score FILE] [--target TARGET]...",
     .options = {bn_bench_run_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_run,
     .examples = {{"bn-bench run", "the built-in model"},
                  {"bn-bench run -m model.gguf -p 512 -n 32 -t 1,2",
                   "one prompt and one answer, with 1 and 2 threads"},
                  {"bn-bench run -m model.gguf -p 0 -n 32 -d 0,1024,4096",
                   "time per token after a long context"},
                  {"bn-bench run -m model.gguf -p 0 -t 1 --concurrent 1,2,4", "concurrent generations"},
                  {"bn-bench run -m model.gguf -p 0 -t 1,2 --busy 1", "next to a process that needs a CPU"},
                  {"bn-bench run --score validation --target 'decode>=30' --target 'accuracy>=15%'",
                   "fail when it is too slow or predicts too little"},
                  {"bn-bench run --json >before.json", "every sample, for later comparison"}}},
    {.name = "limits",
     .summary = "show what this machine could do for a model, and what it reaches",
     .text = "Counts the bytes that a token reads and its multiply-adds, and measures how fast this machine "
             "reads and multiplies. Their quotient is the greatest rate of decoding and of a prompt. Next to "
             "it are the rate of a short measurement, and the limit that comes next.",
     .synopsis = "[-m MODEL] [-p LIST] [-n LIST] [-d LIST] [-t LIST]",
     .options = {bn_bench_limits_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_limits,
     .examples = {{"bn-bench limits -m model.gguf", "decoding and a prompt, 1 and all threads"},
                  {"bn-bench limits -m model.gguf -p 0 -d 4096", "decoding after a long context"},
                  {"bn-bench limits -m model.gguf --json", "as a document"}}},
    {.name = "kernels",
     .summary = "time the kernels, and compare them with the limits of the machine",
     .text =
         "Each kernel is compared with the reference, bit for bit, and timed; so are the limits: read "
         "bandwidth of memory and caches, dot products of bytes, fused multiply-adds. The last column is the percentage of the limit that the kernel reaches, and which "
         "limit it is. A limit that a kernel exceeds is measured again. Kernels in plain C have no "
         "limit.",
     .synopsis = "[-m MODEL] [--isa NAME|all] [--filter PART] [-t LIST]",
     .options = {bn_bench_kernels_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_kernels,
     .examples = {{"bn-bench kernels", "all kernels with the shapes of the 2B model"},
                  {"bn-bench kernels --filter i2s_gemv --isa all -t 1", "one kernel, each instruction set"},
                  {"bn-bench kernels -m model.gguf --min-time 1 --json", "another model's shapes"}}},
    {.name = "memory",
     .summary = "time allocation, bandwidth and latency; check for leaks",
     .text =
         "Measures the time to allocate and free blocks in three patterns, next to calloc; "
         "fragmentation; bandwidth of loops that read and write, by size of the set; latency of "
         "dependent loads; and "
         "the memory of a model and a session, which closing has to free. A rate above the measured limit "
         "is INVALID.",
     .synopsis = "[-m MODEL] [--filter PART] [--min-time SECONDS] [-t LIST]",
     .options = {bn_bench_memory_options, bn_bench_harness_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_memory,
     .examples = {{"bn-bench memory", "every memory test"},
                  {"bn-bench memory --filter latency", "latency of a load, by size of the set"}}},
    {.name = "quant",
     .summary = "time quantisation, and measure the error of each format",
     .text = "Weights are quantised (absmean ternary, and 4 and 8 bits for comparison) and dequantised; "
             "activations are quantised. Each result is compared with the reference, bit for bit, before "
             "and after it is timed; one that differs is INVALID. Then follow error, entropy and bits of "
             "every format. With --text, "
             "the model is converted in memory, and its perplexity is compared between formats.",
     .synopsis = "[-m MODEL] [--shape ROWSxK]... [--isa NAME|all] [--filter PART] [-t LIST]",
     .options = {bn_bench_quant_options, bn_bench_harness_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_quant,
     .examples = {{"bn-bench quant --shape 2560x6912 -t 1", "one matrix"},
                  {"bn-bench quant --filter quality", "errors and bits only"},
                  {"bn-bench quant --filter perplexity --text text.txt", "perplexity in each format"},
                  {"bn-bench quant --filter activations --isa all", "one kernel, each instruction set"}}},
    {.name = "profile",
     .summary = "show where the time of a pass goes, brick by brick",
     .text = "A prompt and some decoding run with and without the profiler, in turn; the last profiled "
             "run is shown. For every brick of the forward pass: its own time (self: without the bricks "
             "inside it), its percentage of all bricks and of the wall time of all threads, and the "
             "unattributed time. Every event has its begin and its end from one clock; no time is derived "
             "from a percentage. The exit code is 1 when events were dropped, when sums are not exact, or "
             "when bricks account for less than 85 % of the time.",
     .synopsis = "[-m MODEL] [-p N] [-n N] [-t N] [--level LEVEL] [--roofline]\n--graph FORM "
                 "[--pass PASS] [--what-if BRICK=FACTOR]...\n--check FILE [--check FILE]...",
     .options = {bn_bench_profile_options, bn_bench_profile_graph_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_profile,
     .examples = {{"bn-bench profile", "the built-in model"},
                  {"bn-bench profile --level kernel -t 1", "kernels and the parts of attention too"},
                  {"bn-bench profile --json >profile.json", "every event of it"},
                  {"bn-bench profile --graph tree", "the last token's layers, bricks and kernels"},
                  {"bn-bench profile --graph path --what-if DownProjection=2",
                   "the critical path, and what a faster brick would change"},
                  {"bn-bench profile --graph chrome --pass all >trace.json", "for ui.perfetto.dev"},
                  {"bn-bench profile --check profile.json", "check that a profile was measured"}}},
    {.name = "train",
     .summary = "time the phases of a training step",
     .text =
         "Trains models of random weights on random tokens with bn-train, and shows the time of a step and of its "
         "phases: forward, backward, reduce (adding gradients), wait (of threads that are done) and optimiser. "
         "Next to them are operations a second, by 6 N + 12 L S d for a token, and their percentage of the float "
         "peak, which is measured before each round. Then follow tok/s, memory, and how the rate grows with "
         "threads, batch and context.\n\nEach combination of the lists is a process; they take turns step by "
         "step. A result is INVALID, and the exit code 1, when its phases are longer than the step, when weights "
         "or losses differ between thread counts, or when a rate is above the peak.",
     .synopsis = "[--shape LAYERSxWIDTH[xFFN]]... [--context LIST] [--batch LIST] [-t LIST]",
     .options = {bn_bench_train_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_train,
     .examples = {{"bn-bench train", "6 layers of 256, with 1 thread and with all cores"},
                  {"bn-bench train --shape 6x384 --context 256,512 -t 2", "another model, two lengths"},
                  {"bn-bench train --json >train.json", "every sample"}}},
    {.name = "serve",
     .summary = "load a server of OpenAI's API, and show what its clients see",
     .text = "Sends the same streamed requests to /v1/completions with each number of clients, and shows the "
             "time to the first token, the times between tokens (gaps), the rate of all answers, and "
             "failures. Requests follow from the seed, so the answers under each load are compared: by the "
             "chain of bn-serve, else by the text. --rate sends requests at the times of a Poisson process "
             "in place of a number of clients. --interrupt sends one long prompt while all clients are "
             "answered, and shows the gaps meanwhile.\n\nThe URL is plain HTTP to an address or localhost. "
             "The exit code is 1 when a request failed or when answers differ.",
     .synopsis = "URL [--clients LIST] [--rate N] [--prompt N] [--tokens N] [--interrupt N]",
     .options = {bn_bench_serve_options},
     .json = true,
     .min_operands = 1,
     .max_operands = 1,
     .operand = "URL",
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_serve,
     .examples = {{"bn-bench serve http://127.0.0.1:8080 --clients 1,2,4,8", "rates and latencies"},
                  {"bn-bench serve http://127.0.0.1:8080 --clients 4 --interrupt 2048",
                   "how much a long prompt delays answers that run"},
                  {"bn-bench serve http://127.0.0.1:8080 --rate 2 --requests 100", "an open loop"}}},
    {.name = "top",
     .summary = "show where the time of a running program goes",
     .text =
         "bn-run and bn-serve publish their profile when they are started with --live. Without an "
         "argument, this command shows the only program that publishes; a process number or a file "
         "selects one. A row is a brick of the forward pass or a category of bricks: its percentage of "
         "the time of all bricks, its time in a pass, the number of its events, what it reads and "
         "computes per second, its percentage of the critical path, and its slack.\n\nOn a terminal the screen refreshes; ? lists the keys. "
         "In a pipe, one frame of text follows the other until the program ends. With --json each "
         "refresh is a document on a line of its own.",
     .synopsis = "[PID|FILE] [-i MS] [--once] [--pass] [--budget FILE]\n--list",
     .options = {bn_bench_top_options},
     .json = true,
     .max_operands = 1,
     .operand = "PID|FILE",
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_top,
     .examples = {{"bn-serve --live", "in one terminal"},
                  {"bn-bench top", "in another one"},
                  {"bn-bench top --once", "one frame, since the program was started"},
                  {"bn-bench top 4711 --json -i 500", "two documents in a second"}}},
    {.name = "doctor",
     .summary = "show what this machine can measure, and its limits",
     .text = "Tries each source of measurement: clocks, counters, timers, energy, pages, quotas, "
             "programs. What is missing is shown with the reason and what would help. Then it measures "
             "the limits: read bandwidth of sets that fit into each cache and of one that does not, and "
             "multiply-adds of bytes and floats with each instruction set; medians over repeated "
             "measurements.",
     .synopsis = "[--require NAME]... [--no-limits] [-t LIST]",
     .options = {bn_bench_doctor_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_doctor,
     .examples = {{"bn-bench doctor", "every source and limit"},
                  {"bn-bench doctor --no-limits --require perf-software", "may this process count events?"}}},
    {.name = "ab",
     .summary = "compare two commands that run in turn",
     .text = "Each round runs A, B, and A again (A'), in an order that cancels a drift of the machine; "
             "every run is a fresh process. A series is REGRESSED or IMPROVED when the interval of its "
             "change is beyond --margin and beyond the difference of A from itself, SAME when the "
             "interval is within the margin, else INCONCLUSIVE. Before each run a fixed piece of work is "
             "timed, the control. When its time differs next to A and next to B, or between the halves of "
             "the session, the machine was disturbed, and every time is INCONCLUSIVE.\n\n"
             "The metric named by --metric decides; without it what the commands print, else the elapsed "
             "time. Other metrics count when their regression is critical. INCONCLUSIVE exits with 0 "
             "unless --strict is given. A series that one side lacks, and a command that exceeds "
             "--timeout, exit with 1. Each row also shows how much A differs from itself (band) and the "
             "smallest detectable change (MDE).",
     .synopsis = "[-r N] [--series] [--extract NAME=REGEX] -- COMMAND_A ... --vs COMMAND_B ...\n"
                 "--self-test [-r N] [--sessions N]",
     .options = {bn_bench_ab_options, bn_bench_thresholds_option},
     .json = true,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "COMMAND",
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_ab,
     .examples = {{"bn-bench ab -- old/bn-run -q -p To -n 64 --vs new/bn-run -q -p To -n 64",
                   "wall time, CPU time, memory"},
                  {"bn-bench ab --series -- a/bn-bench run --json --vs b/bn-bench run --json",
                   "every series that both print"},
                  {"bn-bench ab --extract 'tps=([0-9.]+) tok/s:higher' -- ./a --vs ./b",
                   "a number that they print"},
                  {"bn-bench ab --self-test", "error rates of ab on this machine"}}},
    {.name = "compare",
     .summary = "compare two documents",
     .text = "Series are paired by test and metric. The two runs were not taken in turn, and the machine "
             "may have drifted between them, so a change counts only beyond --drift; one within it is "
             "STABLE, and one across it is INCONCLUSIVE. bn-bench ab finds smaller changes. Single values "
             "are judged by their levels. When no time or rate can be judged, for instance because other "
             "processes were busy, the exit code is 1. A list of values without samples, {\"baselines\": "
             "{PLATFORM: {IMPLEMENTATION: {METRIC: NUMBER}}}}, is compared with another such list only; "
             "bn-bench baseline compares runs.",
     .synopsis = "[--drift PERCENT] [--thresholds FILE] A B",
     .options = {bn_bench_thresholds_option, bn_bench_compare_options},
     .json = true,
     .min_operands = 2,
     .max_operands = 2,
     .operand = "A or B",
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_compare,
     .examples = {{"bn-bench compare before.json after.json", "what changed"}}},
    {.name = "baseline",
     .summary = "save runs, and compare later ones with them",
     .text = "save appends a run to the ledger of its machine and suite. It refuses runs that cannot be "
             "trusted later: of sources that differ from the commit, of a program of another commit, or "
             "while other processes were busy. The first run of a name is its baseline, for the same "
             "machine, settings and model. Later ones are compared with it, and replace it when they are "
             "promoted; a run that regressed cannot be promoted.\n\n"
             "check compares a run with the baseline; without a baseline it fails. list and show print "
             "what is saved. docs/howto/track-performance.md walks through it.",
     .synopsis = "save NAME FILE\nlist\nshow NAME|ID\ncheck FILE [--baseline NAME] [--save-baseline "
                 "NAME]\npromote ID",
     .options = {bn_bench_ledger_options, bn_bench_baseline_options, bn_bench_thresholds_option,
                 bn_bench_compare_options},
     .json = true,
     .max_operands = 3,
     .operand = "ACTION",
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_baseline,
     .examples = {{"bn-bench run --json >run.json", "measure"},
                  {"bn-bench baseline save main run.json", "save a baseline"},
                  {"bn-bench baseline check run.json", "check a later run"},
                  {"bn-bench run --json | bn-bench baseline check - --save-baseline next",
                   "measure, check, and save what passed"},
                  {"bn-bench baseline promote ID", "make a saved run the baseline"}}},
    {.name = "trend",
     .summary = "show figures from run to run, and where they changed",
     .text = "Prints a line for every series of the runs in the ledgers, in the order in which they were "
             "saved. Where the runs before and after a point differ by more than shuffled runs do "
             "(E-divisive, p < 0.01), and by more than --margin, it prints the change, its date, the "
             "commits around it, and a command that confirms it. The last run alone never counts as a "
             "change.",
     .synopsis = "[--suite NAME] [--test PATTERN] [--metric PATTERN]",
     .options = {bn_bench_ledger_options, bn_bench_trend_options},
     .json = true,
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_trend,
     .examples = {{"bn-bench trend --suite run --metric ns_per_token",
                   "time per token over all saved runs"}}},
    {.name = "report",
     .summary = "turn documents of bn-bench into text, tables, pages and other formats",
     .text = "Reads documents that bn-bench wrote with --json, ledgers of baselines and profiles, and "
             "writes one report of all of them. Formats for programs have exact figures, formats for "
             "people rounded ones. The HTML page is one file that includes its plots and loads nothing. "
             "Findings are made by rules, and each names its figures. docs/reference/report.md describes "
             "the formats.",
     .synopsis = "[--format NAME] [-o FILE] FILE...\n--dir DIR FILE...",
     .options = {bn_bench_report_options},
     .json = true,
     .min_operands = 1,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "FILE",
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_report,
     .examples = {{"bn-bench report run.json", "tables for the terminal"},
                  {"bn-bench report --format html -o report.html run.json ab.json", "a page to look at"},
                  {"bn-bench report --dir benchmark-results run.json", "all files that a build server keeps"},
                  {"bn-bench kernels --json | bn-bench report --format csv -", "figures for a spreadsheet"}}},
    {.name = "suite",
     .summary = "run the parts of a configuration file, and report on all of them",
     .text = "The file is YAML: sections of keys (docs/howto/run-a-suite.md lists them). Each part, such as "
             "run, kernels, quant or memory, is a process of its own. Its document is kept in the directory, "
             "and the report of all documents next to it. A part is not measured again when its document is "
             "of the same program, model, machine and settings; --force measures all.\n\n"
             "The exit code is 1 when a part failed or a target was missed.",
     .synopsis = "[-o DIR] [--force] [--dry-run] CONFIG.yaml",
     .options = {bn_bench_suite_command_options},
     .json = true,
     .min_operands = 1,
     .max_operands = 1,
     .operand = "CONFIG.yaml",
     .bytes = sizeof(struct bn_bench_options),
     .run = bn_bench_suite,
     .examples = {{"bn-bench suite baselines/suite.yaml", "the example: three small models"},
                  {"bn-bench suite -o results my.yaml", "another file, another directory"},
                  {"bn-bench suite --dry-run my.yaml", "the commands that it would run"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-bench",
    .summary = BN_SUMMARY_BENCH,
    .text = "A speed only means something next to the hardware limit, so both are measured together. All "
            "samples are in the JSON document; docs/reference/bench.md describes it.",
    .commands = COMMANDS,
    .exits = {{"1", "a wrong result, a regression, a gate without data, or an invalid measurement"},
              {"5", "a ledger was changed by hand"},
              {"9", "different machine, settings or model"}},
    .see_also = "bn-run(1), bn(7)",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
