/* SPDX-License-Identifier: MIT
 *
 * bn-crossval: compare this engine with others, and find the first operation that differs. This file is the
 * table of its commands; they are in crossval/.
 */
#include "lab/kit/process.h"
#include "tools/cli/programs.h"
#include "tools/crossval/crossval.h"

#define OPTIONS struct bn_crossval_options

static const struct bn_option ENGINES[] = {
    BN_OPTION_MODEL,
    BN_OPTION("ref", "engine: oracle, bn, a name or a command", .arg = "REFERENCE", .words = "oracle bn",
              .group = "References", .repeatable = true, BN_TO_TEXTS(OPTIONS, refs)),
    BN_RARE("ref-model", "model file for the references, one per --ref; -: MODEL", .repeatable = true,
            BN_TO_TEXTS(OPTIONS, ref_models)),
    BN_RARE("timeout", "longest wait for one answer, e.g. 90s or 15m", .arg = "DUR", .preset = "120",
            BN_TO_SECONDS(OPTIONS, timeout_s)),
    BN_OPTION_THREADS_TO(OPTIONS, n_threads),
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    {0},
};

static const struct bn_option THRESHOLDS[] = {
    BN_RARE("thresholds", "limits as JSON [crossval/thresholds.json]", .group = "Judgement",
            BN_TO_TEXT(OPTIONS, thresholds)),
    {0},
};

static const struct bn_option PROMPT[] = {
    BN_OPTION_PROMPT,
    BN_OPTION_FILE,
    BN_RARE("tokens", "token ids instead of a text, e.g. 1,2,3", .repeatable = true,
            BN_TO_IDS(OPTIONS, tokens)),
    BN_RARE("positions", "compare only the first N tokens", BN_TO_U32(OPTIONS, positions, 1, 1u << 24)),
    {0},
};

static const struct bn_option DECODE[] = {
    BN_OPTION("n-predict", "tokens to generate after each prompt", .letter = 'n', .group = "Input",
              .preset = "16", BN_TO_U32(OPTIONS, n_decode, 0, 4096)),
    {0},
};

static const struct bn_option RECEIPT[] = {
    BN_RARE("receipt", "add the result to this receipt of the same model", .group = "Output",
            BN_TO_TEXT(OPTIONS, receipt)),
    {0},
};

static const struct bn_option TRACE_WHEN[] = {
    BN_OPTION("trace", "compare operations; auto: when logits differ", .arg = "auto|always|never",
              .group = "Judgement", .preset = "auto", BN_TO_TEXT(OPTIONS, trace)),
    {0},
};

static const struct bn_option EXACT[] = {
    BN_OPTION("exact", "require the same bits in every record", .group = "Judgement",
              BN_TO_BOOL(OPTIONS, exact)),
    {0},
};

static const struct bn_option SWEEP[] = {
    BN_OPTION("prompts", "JSON lines, each with a prompt or tokens", .group = "Input",
              BN_TO_TEXT(OPTIONS, prompts)),
    BN_OPTION("seeds", "also sample continuations with these seeds", .arg = "N,...",
              BN_TO_LIST(OPTIONS, seeds, 0, UINT32_MAX)),
    BN_RARE("record", "write the prompts with the computed tokens to FILE", .group = "Output",
            BN_TO_TEXT(OPTIONS, record)),
    {0},
};

static const struct bn_option SERVE[] = {
    BN_OPTION_THREADS_TO(OPTIONS, n_threads),
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    BN_RARE("batch", "evaluate N tokens of the prompt together", BN_TO_U32(OPTIONS, n_batch, 1, 4096)),
    {0},
};

static const struct bn_option BENCH[] = {
    BN_OPTION_FILE,
    BN_OPTION("positions", "compare N tokens of FILE [of the built-in text]; 0: none", .preset = "256",
              BN_TO_U32(OPTIONS, positions, 0, 1u << 24)),
    BN_OPTION("prompt-tokens", "tokens evaluated together", .letter = 'p', .group = "Measurement",
              .preset = "128", BN_TO_U32(OPTIONS, n_prompt, 1, 1u << 20)),
    BN_OPTION("n-predict", "tokens evaluated one by one after them; 0: none", .letter = 'n', .preset = "32",
              BN_TO_U32(OPTIONS, n_decode, 0, 1u << 20)),
    BN_OPTION("reps", "rounds to measure, after one warm-up round", .preset = "10",
              BN_TO_U32(OPTIONS, n_reps, 2, BN_CROSSVAL_MAX_REPS)),
    BN_OPTION("fail-below", "exit with 1 when bn is below RATIO times a reference", .arg = "RATIO",
              .group = "Judgement", BN_TO_F64(OPTIONS, fail_below, 1e-6, 1e6)),
    {0},
};

/* The script reads them; see bn_crossval_script. */
static const struct bn_option SETUP[] = {
    BN_OPTION("source", "source tree: a folder, or URL@COMMIT of a git repository", .arg = "SOURCE",
              .group = "Source"),
    BN_OPTION("sha256", "expected digest of the tree", .arg = "DIGEST"),
    BN_OPTION("name", "name for --ref [last part of the source]", .arg = "NAME"),
    BN_OPTION("cmake", "option for cmake, e.g. -DGGML_NATIVE=ON", .arg = "OPTION", .group = "Build",
              .repeatable = true),
    BN_OPTION("target", "target of the tree to build [llama]", .arg = "TARGET", .repeatable = true),
    BN_OPTION("cc", "C compiler [that of cmake]", .arg = "PROGRAM"),
    BN_OPTION("cxx", "C++ compiler [that of cmake]", .arg = "PROGRAM"),
    BN_OPTION("before", "command for the shell that a copy of the tree needs before cmake", .arg = "COMMAND"),
    BN_OPTION("keep", "keep only this folder, e.g. build/bin, or none [all]", .arg = "DIR",
              .repeatable = true),
    BN_OPTION("jobs", "compilers that run at a time [one per usable core]", .letter = 'j', .arg = "N"),
    BN_OPTION("force", "build again, and replace a reference of this name", .group = "Build"),
    BN_OPTION("key", "print a key for a cache of CI, and build nothing", .group = "Build"),
    BN_RARE("bridge", "folder with the source of another bridge", .arg = "DIR"),
    {0},
};

/* The struct of options, the documents and the function of a command that starts references. */
#define COMPARES(function) .json = true, .bytes = sizeof(OPTIONS), .run = (function)
#define INPUT "TEXT | -p TEXT | -f FILE | --tokens IDS"
static const struct bn_command COMMANDS[] = {
    {.name = "ladder",
     .summary = "compare tokens, logits and continuation",
     .text =
         "Compares in six steps: the tokens of the text, the logits of the first position, those of all "
         "positions, the greedy continuation, the likelihood of the text, and the mask: later tokens must "
         "not change earlier logits. Each measure is shown with "
         "its limit. A step that a reference cannot do is reported as skipped. When nothing was compared, "
         "the result is a failure. Where logits differ, the intermediate results are compared, and the "
         "first operation out of tolerance is named. With two or more references the one that differs "
         "from the others is named.\n\nA REFERENCE is oracle (bn-reference), bn (this engine in another "
         "process, with options: 'bn --isa ref --threads 1'), a name (of a reference that setup built, or of a bridge), or a command that speaks "
         "the reference protocol.",
     .synopsis = "--ref REFERENCE... " INPUT,
     BN_ONE_TEXT,
     .options = {ENGINES, PROMPT, DECODE, THRESHOLDS, TRACE_WHEN, RECEIPT},
     COMPARES(bn_crossval_ladder),
     .examples = {{"bn-crossval ladder --ref oracle 'ROMEO:'", "the built-in model and the oracle"},
                  {"bn-crossval -m model.gguf --ref oracle --ref bn -f text.txt", "three engines"}}},
    {.name = "sweep",
     .summary = "compare many prompts, and check expected tokens",
     .text = "Each line of the file is a JSON object with \"prompt\" (a text) or \"tokens\" (ids), and "
             "optionally \"name\", \"expect\" (the greedy continuation that this engine must compute) and "
             "\"model_sha256\" (the model for which it holds). Every prompt goes through the ladder, and "
             "again with a sampled continuation for each seed. The exit status is 1 when one differs, and "
             "when nothing was compared. --record writes the file again with the tokens that were computed, "
             "only when all runs pass.",
     .synopsis = "--prompts FILE [--ref REFERENCE]... [--seeds N,...]",
     .options = {ENGINES, SWEEP, DECODE, THRESHOLDS, TRACE_WHEN},
     COMPARES(bn_crossval_sweep),
     .examples = {{"bn-crossval sweep --prompts fixtures/prompts.jsonl --ref oracle --seeds 7",
                   "all prompts, greedy and sampled"}}},
    {.name = "tokens",
     .summary = "compare the ids of a text",
     .synopsis = "[-m MODEL] --ref REFERENCE... TEXT | -p TEXT | -f FILE",
     BN_ONE_TEXT,
     .options = {ENGINES, PROMPT, THRESHOLDS},
     COMPARES(bn_crossval_ladder)},
    {.name = "logits",
     .summary = "compare the logits of every position",
     .synopsis = "[-m MODEL] --ref REFERENCE... " INPUT,
     BN_ONE_TEXT,
     .options = {ENGINES, PROMPT, THRESHOLDS, TRACE_WHEN},
     COMPARES(bn_crossval_ladder),
     .examples = {{"bn-crossval logits -m model.gguf --ref oracle --tokens 1,2,3", "of three tokens"}}},
    {.name = "trace",
     .summary = "compare every operation of every layer",
     .text = "Each operation is judged by the error that it adds to that of its inputs. So the first "
             "wrong one is named, not those after it.",
     .synopsis = "[-m MODEL] --ref REFERENCE... " INPUT " [--exact]",
     BN_ONE_TEXT,
     .options = {ENGINES, PROMPT, THRESHOLDS, EXACT},
     COMPARES(bn_crossval_ladder),
     .examples = {{"bn-crossval trace --ref 'bn --isa ref --threads 1' 'To be' --exact",
                   "two instruction sets, bit for bit"}}},
    {.name = "bench",
     .summary = "compare speed, memory and agreement with others",
     .text =
         "Every engine runs in a process of its own and is asked through the protocol, this one too. "
         "Rounds go forwards and backwards in turn (A B B A), so that a machine that slows down slows "
         "all of them. Shown are the speeds, the time to open the model, the peak of memory, and on how many tokens of a "
         "text both engines agree. A ratio above 1 means that this engine is better; it has a 95 % interval from 6 rounds on, "
         "and the verdict of bn-bench ab. --fail-below makes a gate of the speeds: the exit status is 1 when a ratio is "
         "below it, or was not measured. bn-bench report shows the document of --json, bn-bench baseline saves it.",
     .synopsis = "[-m MODEL] --ref REFERENCE... [-p N] [-n N] [--threads N] [--reps N]",
     .options = {ENGINES, BENCH},
     COMPARES(bn_crossval_bench),
     .examples = {{"bn-crossval bench -m model.gguf --ref 'bn --isa avx2' -p 128 -n 32",
                   "how much faster wider vectors are"},
                  {"bn-crossval bench --ref oracle --json | bn-bench report --html page.html -",
                   "speed, memory and agreement as a page"}}},
    {.name = "serve",
     .summary = "act as a reference for another bn-crossval",
     .text = "Answers requests from standard input on standard output; the protocol is described in "
             "docs/explain/crossval.md.",
     .synopsis = "[--isa NAME] [--threads N] [--batch N]",
     .options = {SERVE},
     .bytes = sizeof(OPTIONS),
     .run = bn_crossval_serve},
    {.name = "setup",
     .summary = "build a reference engine of llama.cpp's family",
     .text =
         "Takes the source tree of an engine that has llama.h: a folder, or a git URL at a commit, which "
         "is downloaded. Builds it with its own cmake outside the tree, builds the bridge with it, "
         "checks that the bridge answers, and remembers it. Then --ref NAME starts it. The digest of a "
         "tree is printed; --sha256 requires it. FILE has a line \"NAME = VALUE\" for each option, without "
         "its hyphens. After a failure the same command goes on. docs/howto/set-up-a-reference.md explains it.",
     .synopsis = "node-llama-cpp | [FILE] [--source DIR|URL@COMMIT] [--name NAME] [--cmake OPTION]...",
     .max_operands = 1,
     .operand = "FILE",
     .options = {SETUP},
     .run = bn_crossval_script,
     .examples = {{"bn-crossval setup node-llama-cpp", "install llama.cpp from npm"},
                  {"bn-crossval setup --source ~/src/engine --name engine", "build the tree in a folder"}}},
    {.name = "refs",
     .summary = "list the references that --ref NAME starts",
     .synopsis = "",
     .json = true,
     .run = bn_crossval_refs},
    {.name = "remove",
     .summary = "remove a reference that was set up",
     .synopsis = "NAME",
     .min_operands = 1,
     .max_operands = 1,
     .operand = "NAME",
     .run = bn_crossval_script},
    {.name = "doctor",
     .summary = "list what comparisons need, and what is missing",
     .text = "Looks for the programs that setup needs, for free disk space, for the oracle and for the "
             "references that were set up. The exit status is 1 when no reference can be used.",
     .synopsis = "[--require CHECK]...",
     .options = {bn_crossval_doctor_options},
     .json = true,
     .run = bn_crossval_doctor},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-crossval",
    .summary = BN_SUMMARY_CROSSVAL,
    .text = "Compares this engine with other engines (references) and names the first operation that "
            "differs. A reference that fails never counts as agreeing.",
    .commands = COMMANDS,
    .default_command = "ladder",
    .exits = {{"1", "results differ, a reference failed, or nothing was compared"},
              {"3", "no such model, reference, dump or folder"},
              {"5", "a source tree or a bridge has another digest"},
              {"9", "the reference cannot read this model"}},
    .environment = {{"XDG_CACHE_HOME", "folder of caches; setup builds in bn/reference in it [~/.cache]"}},
};

int main(int argc, char **argv)
{
    bn_descendants_keep();
    int exit_code = bn_cli_main(&PROGRAM, argc, argv);
    bn_descendants_end();
    return exit_code;
}
