/* SPDX-License-Identifier: MIT
 *
 * bn-run: run a ternary language model. This file is the table of its commands; each command is a file in
 * run/.
 */
#include "tools/cli/options.h"
#include "tools/cli/program/sandbox.h"
#include "tools/run/run.h"

#define OF struct bn_run_options /* whose fields the options set */

#define OPTION_CTX                                                                                       \
    BN_OPTION("ctx", "context size in tokens [the model's, up to 4096]", .arg = "N", .group = "Machine", \
              BN_TO_U32(OF, n_ctx, 1, 1u << 24))

static const struct bn_option OPEN[] = {
    BN_OPTION_MODEL,
    BN_OPTION_THREADS_TO(OF, n_threads),
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    OPTION_CTX,
    BN_OPTION_MAX_MEMORY,
    BN_RARE("batch", "evaluate N tokens of the prompt together [128]", BN_TO_U32(OF, n_batch, 1, 4096)),
    BN_RARE("snapshots", "memory for earlier recurrent states [6 states]", BN_TO_BYTES(OF, snapshot_bytes)),
    BN_OPTIONS_LIVE(OF, live),
    {0},
};

/* For commands that generate: others read every logit and the file's weights as they are. */
static const struct bn_option REPACK[] = {BN_OPTION_REPACK, {0}};

static const struct bn_option VOCABULARY[] = {BN_OPTION_MODEL, {0}};

static const struct bn_option TEXT[] = {BN_OPTION_PROMPT, BN_OPTION_FILE, {0}};

static const struct bn_option IDS[] = {
    BN_RARE("tokens", "token ids instead of a text, e.g. 1,2,3", .group = "Input", .repeatable = true,
            BN_TO_IDS(OF, tokens)),
    {0},
};

static const struct bn_option TEMPLATE[] = {
    BN_RARE("template", "chat template; auto: the model's own",
            .arg = "auto|raw|instruct|llama3-chat|bitnet|chatml|qwen3|qwen35|falcon3", .group = "Input",
            .preset = "auto", BN_TO_TEXT(OF, template_name)),
    BN_OPTION("system", "system message", .arg = "TEXT", BN_TO_TEXT(OF, system)),
    {0},
};

static const struct bn_option LENGTH[] = {
    BN_OPTION("n-predict", "generate at most N tokens; -1: until the end", .letter = 'n', .group = "Sampling",
              .preset = "32", BN_TO_U32_ALL(OF, n_predict, 1, 1u << 24)),
    {0},
};

static const struct bn_option SAMPLING[] = {
    BN_OPTION("temp", "temperature; 0: greedy [0; base model in chat: 0.7]", .arg = "T", .group = "Sampling",
              BN_TO_F32(OF, sampling.temperature, 0, 100)),
    BN_OPTION("top-k", "sample from the K most likely tokens; 0: from all", .arg = "K", .preset = "0",
              BN_TO_U32(OF, sampling.top_k, 0, 1u << 20)),
    BN_OPTION("top-p", "sample from the top tokens of total probability P", .arg = "P", .preset = "1",
              BN_TO_F32(OF, sampling.top_p, 0, 1)),
    BN_RARE("min-p", "drop tokens less likely than P times the best one", .arg = "P", .preset = "0",
            BN_TO_F32(OF, sampling.min_p, 0, 1)),
    BN_RARE("repeat-penalty", "make the last 64 tokens less likely; 1: off", .preset = "1",
            BN_TO_F32(OF, sampling.repeat_penalty, 1, 100)),
    BN_RARE("presence-penalty", "subtract X from logits of generated tokens; -2 to 2", .preset = "0",
            BN_TO_F32(OF, sampling.presence_penalty, -2, 2)),
    BN_RARE("frequency-penalty", "subtract X for each time they were generated", .preset = "0",
            BN_TO_F32(OF, sampling.frequency_penalty, -2, 2)),
    BN_RARE("logit-bias", "add VALUE, -100 to 100, to the logit of token ID", .arg = "ID=VALUE",
            .repeatable = true, BN_TO_BIAS(OF, sampling.bias)),
    BN_OPTION("seed", "seed for sampling; same tokens on every machine", .preset = "42", .env = "BITNET_SEED",
              BN_TO_U64(OF, sampling.seed, 0, 9007199254740991)),
    {0},
};

/* Where it is asked for: a screen of help has room for it in one place. */
#define THINK(how)                                                                                   \
    BN_OPTION("think", "think before answering; auto: the template's default", .arg = "auto|on|off", \
              .group = "Input", .preset = "auto", .rare = how, BN_TO_CHOICE(OF, think))

static const struct bn_option CACHE[] = {
    BN_RARE("prompt-cache", "reuse the state of a prompt; made after the run", .group = "Input",
            BN_TO_PATH(OF, prompt_cache, BOTH)),
    BN_RARE("prompt-cache-all", "save the state of the answer, too", BN_TO_BOOL(OF, cache_all)),
    BN_RARE("prompt-cache-ro", "read the prompt cache, do not change it", BN_TO_BOOL(OF, cache_ro)),
    {0},
};

static const struct bn_option DRAFT[] = {
    BN_RARE("speculate", "guess tokens from earlier text; same results, faster", .arg = "none|ngram",
            .group = "Speed", .preset = "none", BN_TO_CHOICE(OF, speculate)),
    BN_RARE("draft", "guess tokens by a smaller model; same results, faster", .arg = "MODEL",
            BN_TO_PATH(OF, draft_model, MODEL)),
    BN_RARE("draft-max", "guess at most N tokens at once [16]", BN_TO_U32(OF, draft_max, 1, 64)),
    BN_RARE("draft-always", "guess even when it is measured to be slower", BN_TO_BOOL(OF, draft_always)),
    {0},
};

static const struct bn_option FORM[] = {
    BN_RARE("grammar", "generate only this GBNF grammar: a file, or 'root ::= ...'", .group = "Form",
            BN_TO_PATH(OF, grammar, READ)),
    BN_RARE("json-schema", "generate only JSON of this schema: a file, or {...}",
            BN_TO_PATH(OF, json_schema, READ)),
    {0},
};

static const struct bn_option GENERATE[] = {
    THINK(true),
    BN_RARE("stop", "stop before this text", .arg = "TEXT", .group = "Stopping", .repeatable = true,
            BN_TO_TEXTS(OF, stops)),
    BN_RARE("stop-id", "stop at these tokens", .repeatable = true, BN_TO_IDS(OF, stop_ids)),
    BN_RARE("ignore-end", "keep generating past end-of-text tokens", BN_TO_BOOL(OF, ignore_end)),
    BN_OPTION("receipt", "write a receipt for bn-verify-receipt", .group = "Evidence",
              BN_TO_PATH(OF, receipt, WRITE)),
    BN_RARE("receipt-text", "store prompt and answer in the receipt, not only digests",
            BN_TO_BOOL(OF, receipt_text)),
    BN_RARE("trace", "write every intermediate tensor into DIR", .arg = "DIR", BN_TO_PATH(OF, trace, WRITE)),
    BN_RARE("profile", "write the times of all operations", BN_TO_PATH(OF, profile, WRITE)),
    BN_RARE("profile-level", "detail of --profile", .arg = "layer|brick|kernel", .preset = "brick",
            BN_TO_CHOICE(OF, profile_level)),
    BN_RARE("deterministic", "accepted for scripts; every run is deterministic",
            .env = "BITNET_DETERMINISTIC"),
    BN_RARE("batch-file", "continue each line of FILE (JSON), several at a time", .group = "Input",
            BN_TO_PATH(OF, batch_file, READ)),
    BN_RARE("sequences", "lines of --batch-file at a time [8]", .group = "Machine",
            BN_TO_U32(OF, n_sequences, 1, 4096)),
    BN_RARE("receipts", "with --batch-file: write DIR/0.json, DIR/1.json, ...", .arg = "DIR",
            .group = "Evidence", BN_TO_PATH(OF, receipts, WRITE)),
    BN_RARE("logprobs", "with --json, --batch-file: log-probability of each token", BN_TO_BOOL(OF, logprobs)),
    BN_RARE("show-top", "with --json: the N best tokens of each step", BN_TO_U32(OF, n_top, 1, 1000)),
    BN_RARE("assert-greedy", "exit 1 unless each token had the greatest logit",
            BN_TO_BOOL(OF, assert_greedy)),
    BN_RARE("timing", "print the times of each token on standard error", .env = "BITNET_TRACE_TIMING",
            BN_TO_BOOL(OF, timing)),
    BN_RARE("kernels", "print what ran, by kernel and by tensor", .env = "BITNET_TRACE_QUANT",
            BN_TO_BOOL(OF, kernels)),
    BN_RARE("strict", "refuse an unnamed model; a warning is an error", .env = "BITNET_STRICT_MODE",
            BN_TO_BOOL(OF, strict)),
    {0},
};

static const struct bn_option CHAT[] = {
    THINK(false),
    BN_OPTION("prompt", "first message", .letter = 'p', .arg = "TEXT", .group = "Input",
              BN_TO_TEXT(struct bn_args, prompt), .shared = true),
    BN_OPTION("n-predict", "at most N tokens per answer [no limit; base model: 128]", .letter = 'n',
              .group = "Sampling", BN_TO_U32_ALL(OF, n_predict, 1, 1u << 24)),
    BN_RARE("receipts", "write DIR/0.json, DIR/1.json, ...: one for each answer", .arg = "DIR",
            .group = "Evidence", BN_TO_PATH(OF, receipts, WRITE)),
    BN_RARE("no-history", "do not read or write the history of messages", .group = "Input",
            .env = "BN_NO_HISTORY", BN_TO_BOOL(OF, no_history)),
    {0},
};

static const struct bn_option TOKENIZE[] = {
    BN_OPTION("ids", "print the ids on one line, 1,2,3", .group = "Output", BN_TO_BOOL(OF, ids)),
    BN_OPTION("jsonl", "one JSON string per line in, one JSON array out", .group = "Input",
              BN_TO_BOOL(OF, jsonl)),
    BN_OPTION("no-bos", "omit the begin-of-sequence token", .group = "Tokens", BN_TO_BOOL(OF, no_bos)),
    BN_OPTION("special", "recognise special tokens in the text", BN_TO_BOOL(OF, special)),
    {0},
};

static const struct bn_option DETOKENIZE[] = {
    BN_OPTION("special", "show special tokens too", .group = "Tokens", BN_TO_BOOL(OF, special)),
    {0},
};

static const struct bn_option SCORE[] = {
    BN_OPTION("per-token", "print each token's id and log-probability", .group = "Output",
              BN_TO_BOOL(OF, per_token)),
    {0},
};

static const struct bn_option LOGITS[] = {
    BN_OPTION("output", "write raw little-endian float32 rows to FILE", .letter = 'o', .group = "Output",
              BN_TO_PATH(OF, output, WRITE)),
    BN_OPTION("all", "one row for every position [the last only]", BN_TO_BOOL(OF, all)),
    BN_OPTION("digest", "print the SHA-256 of the same bytes", BN_TO_BOOL(OF, digest)),
    BN_RARE("trace", "write every intermediate tensor into DIR", .arg = "DIR", BN_TO_PATH(OF, trace, WRITE)),
    {0},
};

static const struct bn_option EMBED[] = {
    BN_OPTION("prompt", "one text, as the argument TEXT", .letter = 'p', .arg = "TEXT", .group = "Input",
              BN_TO_TEXT(struct bn_args, prompt), .shared = true),
    BN_OPTION("file", "read texts from FILE, one a line; - is standard input", .letter = 'f',
              BN_TO_TEXT(struct bn_args, file), .shared = true, .path = BN_PATH_READ),
    BN_OPTION("jsonl", "each line is a JSON string [a plain text]", BN_TO_BOOL(OF, jsonl)),
    BN_OPTION("instruct", "put 'Instruct: TEXT\\nQuery:' before each text", .arg = "TEXT",
              BN_TO_TEXT(OF, instruct)),
    BN_OPTION("pooling", "how tokens become one vector; file: as the model says", .group = "Output",
              .arg = "file|none|mean|first|last", .preset = "file", BN_TO_CHOICE(OF, pooling)),
    BN_OPTION("no-normalize", "keep the lengths of the vectors [length 1]", BN_TO_BOOL(OF, no_normalize)),
    BN_OPTION("raw", "write little-endian float32 rows to FILE", BN_TO_PATH(OF, raw, WRITE)),
    BN_OPTION("similarity", "print a table of cosine similarities", BN_TO_BOOL(OF, similarity)),
    {0},
};

static const struct bn_option INSPECT[] = {
    OPTION_CTX,
    BN_OPTION_MAX_MEMORY,
    BN_OPTION("judge", "name the tensors that look damaged; exit 1 if any", .group = "Output",
              BN_TO_BOOL(OF, judge)),
    {0},
};

static const struct bn_sandbox SANDBOX = {BN_SANDBOX, .more = bn_run_allow};

static const struct bn_command COMMANDS[] = {
    {.name = "generate",
     .summary = "continue a text",
     .text =
         "The text is PROMPT, the value of -p, a file, or standard input. One final newline of a file and "
         "of standard input is dropped. A PROMPT that is one word near the name of a command needs -p.\n\n-n -1 generates until the end of the text, or until "
         "the context is full.",
     .synopsis = "[-m MODEL] PROMPT | -p TEXT | -f FILE [-n N]",
     .options = {OPEN, REPACK, TEXT, IDS, TEMPLATE, CACHE, LENGTH, SAMPLING, DRAFT, FORM, GENERATE},
     .json = true,
     BN_OPERANDS(0, 1, "PROMPT"),
     .operand_is_text = true,
     BN_SANDBOXED(SANDBOX, bn_run_generate),
     .follow = bn_run_follow,
     .examples = {{"bn-run 'ROMEO:'", "continue a text with the built-in model"},
                  {"bn-run -m model.gguf 'What is 2+2?' -n -1 --receipt r.json",
                   "an answer of any length, and its receipt"}}},
    {.name = "chat",
     .summary = "chat interactively",
     .text = "Answers messages until the input ends. On a terminal a message is one line, or several with "
             "Alt-Enter, a \\ at the end of a line, or between two \"\"\"; /help lists the commands, Ctrl-C "
             "stops an answer, and Ctrl-D ends the program. In a pipe each line is a message, and only "
             "answers go to standard output.\n\nWhen the context is full, the oldest turns are dropped. A "
             "base model continues the text up to an empty line, by default with at most 128 tokens and "
             "temperature 0.7. With --json each line of input is a text, a command or {\"content\": TEXT}, "
             "and each line of output is one JSON object.",
     .synopsis = "[-m MODEL] [--system TEXT] [TEXT]",
     .options = {OPEN, REPACK, TEMPLATE, CACHE, CHAT, SAMPLING, DRAFT, FORM},
     .json = true,
     BN_ONE_TEXT,
     BN_SANDBOXED(SANDBOX, bn_run_chat),
     .follow = bn_run_follow,
     .examples = {{"bn-run chat -m model.gguf --temp 0.7", "chat with a model"},
                  {"bn-run chat -m model.gguf <questions.txt >answers.txt", "answer a file, line by line"}}},
    {.name = "tokenize",
     .summary = "turn text into tokens",
     .text = "The final newline of a file is part of the text.",
     .synopsis = "[-m MODEL] TEXT | -p TEXT | -f FILE | --jsonl [--ids]",
     .options = {VOCABULARY, TEXT, TOKENIZE},
     .json = true,
     BN_ONE_TEXT,
     BN_SANDBOXED(SANDBOX, bn_run_tokenize),
     .examples = {{"bn-run tokenize --ids 'To be'", "the ids of a text"}}},
    {.name = "detokenize",
     .summary = "turn tokens into text",
     .synopsis = "[-m MODEL] --tokens IDS",
     .options = {VOCABULARY, IDS, DETOKENIZE},
     BN_SANDBOXED(SANDBOX, bn_run_detokenize),
     .examples = {{"bn-run detokenize --tokens 84,111", "the text of two tokens"}}},
    {.name = "score",
     .summary = "measure how well the model predicts a text",
     .text = "Prints the mean negative log likelihood (natural logarithm) and the perplexity. A text longer "
             "than the context is cut into windows; the first token of each is not scored. The final newline "
             "of a file is part of the text.",
     .synopsis = "[-m MODEL] TEXT | -p TEXT | -f FILE | --tokens IDS",
     .options = {OPEN, TEXT, IDS, SCORE},
     .json = true,
     BN_ONE_TEXT,
     BN_SANDBOXED(SANDBOX, bn_run_score),
     .follow = bn_run_follow,
     .examples = {{"bn-run score -f text.txt --ctx 256", "perplexity of a text in windows of 256"}}},
    {.name = "logits",
     .summary = "write the network's raw output",
     .synopsis = "[-m MODEL] --tokens IDS | TEXT | -p TEXT | -f FILE [-o FILE] [--all] [--digest]",
     .options = {OPEN, TEXT, IDS, LOGITS},
     BN_ONE_TEXT,
     BN_SANDBOXED(SANDBOX, bn_run_logits),
     .follow = bn_run_follow,
     .examples = {{"bn-run logits --tokens 1,2,3 --all --digest", "one digest of all logits"}}},
    {.name = "embed",
     .summary = "turn texts into vectors",
     .text =
         "Prints one line of JSON for each text: index, text, number of tokens, embedding. With --raw or "
         "--similarity nothing else is printed.\n\nTexts are arguments, or lines of a file or of standard "
         "input. Each gets the begin and end tokens that the model's file asks for.",
     .synopsis = "[-m MODEL] TEXT... | -p TEXT | -f FILE [--pooling P] [--raw FILE | --similarity]",
     .options = {OPEN, EMBED},
     BN_OPERANDS(0, BN_OPERANDS_ANY, "TEXT"),
     BN_SANDBOXED(SANDBOX, bn_run_embed),
     .follow = bn_run_follow,
     .examples = {{"bn-run embed -m embedding.gguf 'a cat' 'a dog'", "two vectors"},
                  {"bn-run embed -m embedding.gguf -f texts.txt --similarity", "how alike the lines are"}}},
    {.name = "inspect",
     .summary = "show what is in a model file",
     .text =
         "Shows the memory that the model needs and that this machine has, the keys, the tensors with their "
         "statistics, and whether this engine runs the model. A file that does not run is shown as far "
         "as it can be read, and the exit code gives the reason.\n\n--judge reads every weight instead: signs, "
         "zeros, scales and norms, which are compared with those of the other layers.",
     .synopsis = "[-m MODEL] [--ctx N | --judge]",
     .options = {VOCABULARY, INSPECT},
     .json = true,
     BN_SANDBOXED(SANDBOX, bn_run_inspect),
     .examples = {{"bn-run inspect -m model.gguf --judge", "what looks damaged; exit code 1 if anything"}}},
    {.name = "devices",
     .summary = "list the devices for --device",
     .text =
         "Lists the devices that OpenCL finds on this machine: graphics processors, and the CPU where PoCL is "
         "installed. The choice of a device changes the speed, never a result. A device that lacks something "
         "is refused; the other devices are tested when a model is opened.",
     .synopsis = "[--json]",
     .json = true,
     .run = bn_run_devices,
     .examples = {{"bn-run --device opencl:0 'ROMEO:'", "evaluate on the first device"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-run",
    .summary = "run a ternary language model",
    .text = "Runs models with ternary (1.58-bit, BitNet) weights from GGUF files. The same tokens give the "
            "same logits, bit for bit, on every machine and device.",
    .commands = COMMANDS,
    .bytes = sizeof(OF),
    .default_command = "generate",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
