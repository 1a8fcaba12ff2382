/* SPDX-License-Identifier: MIT
 *
 * bn-crossval: hold this engine against others, and say where they part. This file is the table of its
 * commands; they are in crossval/.
 */
#include "lab/compare/child.h"
#include "tools/cli/programs.h"
#include "tools/crossval/crossval.h"

#define REF_MODEL                                                                                          \
    {                                                                                                      \
        .name = "ref-model", .arg = "FILE", .group = "References", .repeatable = true,                     \
        .help = "what the references open in place of the model: the same weights in a format of theirs; " \
                "one for each --ref, in order, - for the model itself",                                    \
    }
#define TIMEOUT                                                                  \
    {                                                                            \
        .name = "timeout", .arg = "DUR", .group = "References", .preset = "120", \
        .help = "longest wait for one answer: 90, 90s, 15m",                     \
    }

static const struct bn_option COMMON[] = {
    BN_OPTION_MODEL,
    {.name = "ref",
     .arg = "REFERENCE",
     .words = "oracle bn dump:",
     .group = "References",
     .repeatable = true,
     .help =
         "whom to compare with: oracle (bn-reference, found beside this program), bn (this engine in another "
         "process, with options: 'bn --isa ref --threads 1'), dump:PATH (what bn-run logits --all -o or "
         "--trace wrote), the name of a bridge, or a command that speaks the reference protocol"},
    REF_MODEL,
    TIMEOUT,
    {.name = "prompt", .letter = 'p', .arg = "TEXT", .group = "Input", .help = "the text"},
    {.name = "file",
     .letter = 'f',
     .arg = "FILE",
     .group = "Input",
     .help = "the text is in FILE; - is standard input"},
    {.name = "tokens",
     .arg = "IDS",
     .group = "Input",
     .repeatable = true,
     .help = "token ids, 1,2,3, used as they are in place of a text"},
    {.name = "positions", .arg = "N", .group = "Input", .help = "take only the first N tokens"},
    BN_OPTION_THREADS,
    BN_OPTION_ISA,
    {.name = "thresholds",
     .arg = "FILE",
     .group = "Judgement",
     .help = "limits as JSON, in place of the program's own (crossval/thresholds.json)"},
    {.name = "junit", .arg = "FILE", .group = "Output", .help = "also write the result as JUnit XML"},
    {.name = "html",
     .arg = "FILE",
     .group = "Output",
     .help = "also write the result as a page with plots, in one file that loads nothing"},
    {0},
};

static const struct bn_option DECODE[] = {
    {.name = "n-predict",
     .letter = 'n',
     .arg = "N",
     .group = "Input",
     .preset = "16",
     .help = "greedy steps of the decode rung"},
    {.name = "receipt",
     .arg = "FILE",
     .group = "Output",
     .help = "put the result into this receipt of bn-run, which must be of the same model"},
    {0},
};

static const struct bn_option TRACE_WHEN[] = {
    {.name = "trace",
     .arg = "auto|always|never",
     .group = "Judgement",
     .preset = "auto",
     .help = "compare every operation; auto: when logits differ, up to the position where they do"},
    {0},
};

static const struct bn_option EXACT[] = {
    {.name = "exact", .group = "Judgement", .help = "every record must have the same bits (sha256)"},
    {0},
};

static const struct bn_option SERVE[] = {
    BN_OPTION_THREADS,
    BN_OPTION_ISA,
    {.name = "batch", .arg = "N", .group = "Machine", .help = "tokens of a prompt evaluated together"},
    {0},
};

static const struct bn_option REPORT[] = {
    {.name = "output", .letter = 'o', .arg = "FILE", .help = "write the page here, not on standard output"},
    {0},
};

static const struct bn_option BENCH[] = {
    BN_OPTION_MODEL,
    {.name = "ref",
     .arg = "REFERENCE",
     .words = "oracle bn dump:",
     .group = "References",
     .repeatable = true,
     .help = "whom to time beside this engine: bn with options, the name of a bridge, or a command that "
             "speaks the reference protocol and has the capability bench"},
    REF_MODEL,
    TIMEOUT,
    {.name = "prompt-tokens",
     .letter = 'p',
     .arg = "N",
     .group = "Measurement",
     .preset = "128",
     .help = "tokens that are evaluated together"},
    {.name = "n-predict",
     .letter = 'n',
     .arg = "N",
     .group = "Measurement",
     .preset = "32",
     .help = "tokens that are evaluated one by one behind them; 0: none"},
    {.name = "reps",
     .arg = "N",
     .group = "Measurement",
     .preset = "5",
     .help = "rounds that count, behind one that does not"},
    BN_OPTION_THREADS,
    BN_OPTION_ISA,
    {0},
};

#define INPUT "-p TEXT | -f FILE | --tokens IDS"
static const struct bn_command COMMANDS[] = {
    {.name = "ladder",
     .summary = "compare from the tokens up, rung by rung",
     .text =
         "Rungs: tokens; first, the logits of the first position; positions, those of all positions; decode, "
         "the "
         "greedy continuation; likelihood of the text. Each measure is shown with its limit. What a "
         "reference "
         "cannot do is skipped and said; a ladder on which nothing was compared is a failure. Where "
         "logits differ, both sides' intermediates are compared and the first operation out of tolerance is "
         "named. With two references or more the odd one out is named.",
     .synopsis = "[-m MODEL] --ref REFERENCE... " INPUT,
     .options = {COMMON, DECODE, TRACE_WHEN},
     .json = true,
     .run = bn_crossval_ladder,
     .examples =
         {{"bn-crossval ladder --ref oracle -p 'ROMEO:'", "the carried model against the oracle"},
          {"bn-crossval ladder -m model.gguf --ref oracle --ref 'node bridge.mjs' -f text.txt --junit r.xml",
           "three engines, and a report for CI"}}},
    {.name = "tokens",
     .summary = "compare the ids of a text",
     .synopsis = "[-m MODEL] --ref REFERENCE... -p TEXT | -f FILE",
     .options = {COMMON},
     .json = true,
     .run = bn_crossval_tokens},
    {.name = "logits",
     .summary = "compare the logits of every position",
     .synopsis = "[-m MODEL] --ref REFERENCE... " INPUT,
     .options = {COMMON, TRACE_WHEN},
     .json = true,
     .run = bn_crossval_logits,
     .examples = {{"bn-crossval logits -m model.gguf --ref dump:other.f32 --tokens 1,2,3",
                   "against logits that another program wrote"}}},
    {.name = "trace",
     .summary = "compare every operation of every layer",
     .text = "Each operation is judged by what it adds to the error of its own inputs, so that the first one "
             "that is "
             "wrong is named and those behind it are not.",
     .synopsis = "[-m MODEL] --ref REFERENCE... " INPUT " [--exact]",
     .options = {COMMON, EXACT},
     .json = true,
     .run = bn_crossval_trace,
     .examples = {{"bn-crossval trace --ref 'bn --isa ref --threads 1' -p 'To be' --exact",
                   "two instruction sets, to the bit"}}},
    {.name = "report",
     .summary = "make a page of a result",
     .text = "Reads the document that ladder, logits, tokens or trace wrote with --json, and writes what "
             "--html writes: "
             "one file that loads nothing, the same bytes for the same document.",
     .synopsis = "RESULT.json [-o FILE.html]",
     .options = {REPORT},
     .min_operands = 1,
     .max_operands = 1,
     .operand = "RESULT.json",
     .run = bn_crossval_report,
     .examples = {{"bn-crossval report result.json -o result.html", "a page of a recorded result"}}},
    {.name = "bench",
     .summary = "time this engine and others in turn",
     .text = "Every engine runs in a process of its own and is asked through the protocol, this one too. "
             "Rounds go "
             "forwards and backwards in turn (A B B A), so that a machine that slows down slows all of them. "
             "Shown are "
             "medians and the ratio of medians, with a 95 % interval from 2000 resamples of the rounds "
             "(percentile "
             "bootstrap, a fixed seed).",
     .synopsis = "[-m MODEL] --ref REFERENCE... [-p N] [-n N] [--threads N] [--reps N]",
     .options = {BENCH},
     .json = true,
     .run = bn_crossval_bench,
     .examples = {{"bn-crossval bench -m model.gguf --ref 'bn --isa avx2' -p 128 -n 32",
                   "what wider vectors bring"}}},
    {.name = "serve",
     .summary = "be a reference for another bn-crossval",
     .text = "Reads requests from standard input and answers on standard output, as "
             "docs/reference/reference-protocol.md "
             "says.",
     .synopsis = "[--isa NAME] [--threads N] [--batch N]",
     .options = {SERVE},
     .run = bn_crossval_serve},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-crossval",
    .summary = BN_SUMMARY_CROSSVAL,
    .text = "Compares this engine with references: other programs, started here, that speak the reference "
            "protocol. "
            "It says whether they agree and how closely, at which rung they part, at which position, and at "
            "which "
            "operation of which layer. A reference that fails is reported as such; it never agrees.",
    .commands = COMMANDS,
    .default_command = "ladder",
    .exits = {{"1", "results differ, a reference failed, or nothing was compared"},
              {"3", "no such model, reference or dump"},
              {"9", "the reference cannot read this model"}},
};

int main(int argc, char **argv)
{
    bn_descendants_keep();
    int exit_code = bn_cli_main(&PROGRAM, argc, argv);
    bn_descendants_end();
    return exit_code;
}
