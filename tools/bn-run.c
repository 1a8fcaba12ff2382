/* SPDX-License-Identifier: MIT
 *
 * bn-run: run a ternary language model. This file is the table of its commands; each command is a file in
 * run/.
 */
#include "tools/cli/options.h"
#include "tools/run/run.h"

static const struct bn_option OPEN[] = {
    BN_OPTION_MODEL,
    BN_OPTION_THREADS,
    BN_OPTION_ISA,
    {.name = "ctx",
     .arg = "N",
     .group = "Machine",
     .help = "most tokens in the context; without it the model's, at most 4096"},
    {.name = "batch",
     .arg = "N",
     .group = "Machine",
     .help = "tokens of a prompt evaluated together, 1 to 4096; without it 128. The result is the same"},
    {0},
};

/* For commands that generate: others read every logit and the file's weights as they are. */
static const struct bn_option REPACK[] = {BN_OPTION_REPACK, {0}};

static const struct bn_option VOCABULARY[] = {BN_OPTION_MODEL, {0}};

static const struct bn_option TEXT[] = {
    {.name = "prompt", .letter = 'p', .arg = "TEXT", .group = "Input", .help = "the text"},
    {.name = "file",
     .letter = 'f',
     .arg = "FILE",
     .group = "Input",
     .help = "the text is in FILE; - is standard input"},
    {0},
};

static const struct bn_option IDS[] = {
    {.name = "tokens",
     .arg = "IDS",
     .group = "Input",
     .repeatable = true,
     .help = "token ids, 1,2,3, used as they are in place of a text"},
    {0},
};

static const struct bn_option TEMPLATE[] = {
    {.name = "template",
     .arg = "auto|raw|instruct|llama3-chat|bitnet",
     .group = "Input",
     .preset = "auto",
     .help = "how the text is wrapped; auto asks the model's file, and is raw for a base model"},
    {.name = "system",
     .arg = "TEXT",
     .group = "Input",
     .help = "system message, for templates that have one"},
    {0},
};

static const struct bn_option SAMPLING[] = {
    {.name = "n-predict",
     .letter = 'n',
     .arg = "N",
     .group = "Sampling",
     .preset = "32",
     .help = "most tokens to generate"},
    {.name = "temp",
     .arg = "T",
     .group = "Sampling",
     .preset = "0",
     .help = "temperature; 0 is greedy: argmax, nothing else"},
    {.name = "top-k",
     .arg = "K",
     .group = "Sampling",
     .preset = "0",
     .help = "keep the K most likely tokens; 0 keeps all"},
    {.name = "top-p",
     .arg = "P",
     .group = "Sampling",
     .preset = "1",
     .help = "keep the fewest tokens that reach this probability together"},
    {.name = "min-p",
     .arg = "P",
     .group = "Sampling",
     .preset = "0",
     .help = "keep tokens at least this likely relative to the best"},
    {.name = "repeat-penalty",
     .arg = "X",
     .group = "Sampling",
     .preset = "1",
     .help = "make the last 64 tokens less likely; 1 is off"},
    {.name = "seed",
     .arg = "N",
     .group = "Sampling",
     .preset = "42",
     .help = "the same seed gives the same tokens, on every machine"},
    {0},
};

static const struct bn_option GENERATE[] = {
    {.name = "stop",
     .arg = "TEXT",
     .group = "Stopping",
     .repeatable = true,
     .help = "end when this text appears; it is not shown"},
    {.name = "stop-id",
     .arg = "IDS",
     .group = "Stopping",
     .repeatable = true,
     .help = "end at one of these tokens"},
    {.name = "ignore-end", .group = "Stopping", .help = "go on behind an end-of-text token"},
    {.name = "receipt",
     .arg = "FILE",
     .group = "Evidence",
     .help = "write what ran, counted and timed where it ran; bn-verify-receipt checks and replays it"},
    {.name = "receipt-text",
     .group = "Evidence",
     .help = "put prompt and answer into the receipt, not only digests"},
    {.name = "trace", .arg = "DIR", .group = "Evidence", .help = "write every intermediate tensor into DIR"},
    {.name = "profile",
     .arg = "FILE",
     .group = "Evidence",
     .help =
         "write when every piece of every pass began and ended, on every thread, as JSON; bn-bench profile "
         "--check judges it"},
    {.name = "profile-level",
     .arg = "layer|brick|kernel",
     .group = "Evidence",
     .preset = "brick",
     .help = "what --profile stamps"},
    {.name = "deterministic", .group = "Evidence", .help = "accepted for scripts; runs always are"},
    {0},
};

static const struct bn_option TOKENIZE[] = {
    {.name = "ids", .group = "Output", .help = "one line of ids, 1,2,3"},
    {.name = "jsonl",
     .group = "Input",
     .help = "read one JSON string a line from standard input, write one JSON array of ids a line"},
    {.name = "no-bos", .group = "Tokens", .help = "do not put the begin-of-sequence token in front"},
    {.name = "special", .group = "Tokens", .help = "text that spells a special token is that token"},
    {0},
};

static const struct bn_option DETOKENIZE[] = {
    {.name = "special", .group = "Tokens", .help = "show special tokens too"},
    {0},
};

static const struct bn_option SCORE[] = {
    {.name = "per-token", .group = "Output", .help = "each token's id and log-probability"},
    {0},
};

static const struct bn_option LOGITS[] = {
    {.name = "output",
     .letter = 'o',
     .arg = "FILE",
     .group = "Output",
     .help = "write raw little-endian binary32 values, row after row"},
    {.name = "all", .group = "Output", .help = "a row for every position; without it only the last"},
    {.name = "digest", .group = "Output", .help = "print the sha256 of the same bytes"},
    {.name = "trace", .arg = "DIR", .group = "Output", .help = "write every intermediate tensor into DIR"},
    {0},
};

static const struct bn_option INSPECT[] = {
    {.name = "limits",
     .group = "Output",
     .help = "print the limits that files are held to, and nothing else"},
    {0},
};

static const struct bn_command COMMANDS[] = {
    {.name = "generate",
     .summary = "continue a text",
     .synopsis = "[-m MODEL] -p TEXT | -f FILE | --tokens IDS [-n N]",
     .options = {OPEN, REPACK, TEXT, IDS, TEMPLATE, SAMPLING, GENERATE},
     .json = true,
     .run = bn_run_generate,
     .examples = {{"bn-run -p 'ROMEO:' -n 64", "continue a text with the model that the program carries"},
                  {"bn-run -m model.gguf -p 'What is 2+2?' --receipt r.json",
                   "answer, and write a receipt"}}},
    {.name = "chat",
     .summary = "talk, one line a turn",
     .text = "Reads a line from standard input and answers it, until the input ends. /clear forgets the "
             "conversation, /exit ends it.",
     .synopsis = "[-m MODEL] [--system TEXT]",
     .options = {OPEN, REPACK, TEMPLATE, SAMPLING},
     .run = bn_run_chat,
     .examples = {{"bn-run chat -m model.gguf --temp 0.7", "talk to a model"}}},
    {.name = "tokenize",
     .summary = "turn text into tokens",
     .synopsis = "[-m MODEL] -p TEXT | -f FILE | --jsonl [--ids]",
     .options = {VOCABULARY, TEXT, TOKENIZE},
     .json = true,
     .run = bn_run_tokenize,
     .examples = {{"bn-run tokenize --ids -p 'To be'", "the ids of a text"}}},
    {.name = "detokenize",
     .summary = "turn tokens into text",
     .synopsis = "[-m MODEL] --tokens IDS",
     .options = {VOCABULARY, IDS, DETOKENIZE},
     .run = bn_run_detokenize,
     .examples = {{"bn-run detokenize --tokens 84,111", "the text of two tokens"}}},
    {.name = "score",
     .summary = "measure how well the model predicts a text",
     .text =
         "Prints the mean negative log likelihood (natural logarithm) and the perplexity. A text longer than "
         "the context is cut into windows; the first token of each is not scored.",
     .synopsis = "[-m MODEL] -p TEXT | -f FILE | --tokens IDS",
     .options = {OPEN, TEXT, IDS, SCORE},
     .json = true,
     .run = bn_run_score,
     .examples = {{"bn-run score -f text.txt --ctx 256", "perplexity of a text in windows of 256"}}},
    {.name = "logits",
     .summary = "write the network's raw output",
     .synopsis = "[-m MODEL] --tokens IDS [-o FILE] [--all] [--digest]",
     .options = {OPEN, TEXT, IDS, LOGITS},
     .run = bn_run_logits,
     .examples = {{"bn-run logits --tokens 1,2,3 --all --digest", "one digest of all logits"}}},
    {.name = "inspect",
     .summary = "show what is in a model file",
     .text =
         "Keys, tensors with their statistics, and whether this engine runs the model. A file that does not "
         "run is shown as far as it can be read, and the reason is the exit code's.",
     .synopsis = "[-m MODEL]",
     .options = {VOCABULARY, INSPECT},
     .json = true,
     .run = bn_run_inspect},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-run",
    .summary = "run a ternary language model",
    .text =
        "Runs models with ternary (1.58-bit, BitNet) weights from GGUF files. The same tokens give the same "
        "logits, bit for bit, on every instruction set and with any number of threads, so that a receipt of "
        "a "
        "run can be replayed anywhere.",
    .commands = COMMANDS,
    .default_command = "generate",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
