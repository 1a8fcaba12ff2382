/* SPDX-License-Identifier: MIT
 *
 * bn-run: run a ternary language model. This file is the table of its commands; each command is a file in
 * run/.
 */
#include "tools/cli/options.h"
#include "tools/run/run.h"

#define OPTION_CTX                                                                                       \
    BN_OPTION("ctx", "context size in tokens [the model's, up to 4096]", .arg = "N", .group = "Machine", \
              BN_TO_U32(struct bn_run_options, n_ctx, 1, 1u << 24))

static const struct bn_option OPEN[] = {
    BN_OPTION_MODEL,
    BN_OPTION_THREADS_TO(struct bn_run_options, n_threads),
    BN_OPTION_ISA,
    OPTION_CTX,
    BN_OPTION_MAX_MEMORY,
    BN_OPTION("batch", "evaluate N tokens of the prompt together [128]", .rare = true, .arg = "N",
              .group = "Machine", BN_TO_U32(struct bn_run_options, n_batch, 1, 4096)),
    BN_OPTION("snapshots", "memory for earlier recurrent states [6 states]", .rare = true, .arg = "SIZE",
              .group = "Machine", BN_TO_BYTES(struct bn_run_options, snapshot_bytes)),
    BN_OPTIONS_LIVE(struct bn_run_options, live),
    {0},
};

/* For commands that generate: others read every logit and the file's weights as they are. */
static const struct bn_option REPACK[] = {BN_OPTION_REPACK, {0}};

static const struct bn_option VOCABULARY[] = {BN_OPTION_MODEL, {0}};

static const struct bn_option TEXT[] = {BN_OPTION_PROMPT, BN_OPTION_FILE, {0}};

static const struct bn_option IDS[] = {
    BN_OPTION("tokens", "token ids instead of a text, e.g. 1,2,3", .rare = true, .arg = "IDS",
              .group = "Input", .repeatable = true, BN_TO_IDS(struct bn_run_options, tokens)),
    {0},
};

static const struct bn_option TEMPLATE[] = {
    BN_OPTION("template", "chat template; auto: the model's own", .rare = true,
              .arg = "auto|raw|instruct|llama3-chat|bitnet|chatml|qwen3|qwen35|falcon3", .group = "Input",
              .preset = "auto", BN_TO_TEXT(struct bn_run_options, template_name)),
    BN_OPTION("system", "system message", .arg = "TEXT", .group = "Input",
              BN_TO_TEXT(struct bn_run_options, system)),
    {0},
};

static const struct bn_option LENGTH[] = {
    BN_OPTION("n-predict", "generate at most N tokens; -1: until the end", .letter = 'n', .arg = "N",
              .group = "Sampling", .preset = "32",
              BN_TO_U32_ALL(struct bn_run_options, n_predict, 1, 1u << 24)),
    {0},
};

static const struct bn_option SAMPLING[] = {
    BN_OPTION("temp", "temperature; 0: greedy [0; base model in chat: 0.7]", .arg = "T", .group = "Sampling",
              BN_TO_F32(struct bn_run_options, sampling.temperature, 0, 100)),
    BN_OPTION("top-k", "sample from the K most likely tokens; 0: from all", .arg = "K", .group = "Sampling",
              .preset = "0", BN_TO_U32(struct bn_run_options, sampling.top_k, 0, 1u << 20)),
    BN_OPTION("top-p", "sample from the top tokens of total probability P", .arg = "P", .group = "Sampling",
              .preset = "1", BN_TO_F32(struct bn_run_options, sampling.top_p, 0, 1)),
    BN_OPTION("min-p", "drop tokens less likely than P times the best one", .rare = true, .arg = "P",
              .group = "Sampling", .preset = "0", BN_TO_F32(struct bn_run_options, sampling.min_p, 0, 1)),
    BN_OPTION("repeat-penalty", "make the last 64 tokens less likely; 1: off", .rare = true, .arg = "X",
              .group = "Sampling", .preset = "1",
              BN_TO_F32(struct bn_run_options, sampling.repeat_penalty, 1, 100)),
    BN_OPTION("seed", "seed for sampling; same tokens on every machine", .arg = "N", .group = "Sampling",
              .preset = "42", .env = "BITNET_SEED",
              BN_TO_U64(struct bn_run_options, sampling.seed, 0, 9007199254740991)),
    {0},
};

/* Where it is asked for: a screen of help has room for it in one place. */
#define THINK(how)                                                                                   \
    BN_OPTION("think", "think before answering; auto: the template's default", .arg = "auto|on|off", \
              .group = "Input", .preset = "auto", .rare = how, BN_TO_CHOICE(struct bn_run_options, think))

static const struct bn_option CACHE[] = {
    BN_OPTION("prompt-cache", "reuse the state of a prompt; made after the run", .arg = "FILE", .rare = true,
              .group = "Input", BN_TO_TEXT(struct bn_run_options, prompt_cache)),
    BN_OPTION("prompt-cache-all", "save the state of the answer, too", .rare = true, .group = "Input",
              BN_TO_BOOL(struct bn_run_options, cache_all)),
    BN_OPTION("prompt-cache-ro", "read the prompt cache, do not change it", .rare = true, .group = "Input",
              BN_TO_BOOL(struct bn_run_options, cache_ro)),
    {0},
};

static const struct bn_option DRAFT[] = {
    BN_OPTION("speculate", "guess tokens from earlier text; same results, faster", .arg = "none|ngram",
              .rare = true, .group = "Speed", .preset = "none",
              BN_TO_CHOICE(struct bn_run_options, speculate)),
    BN_OPTION("draft", "guess tokens by a smaller model; same results, faster", .arg = "MODEL", .rare = true,
              .group = "Speed", BN_TO_TEXT(struct bn_run_options, draft_model)),
    BN_OPTION("draft-max", "guess at most N tokens at once [16]", .arg = "N", .rare = true, .group = "Speed",
              BN_TO_U32(struct bn_run_options, draft_max, 1, 64)),
    BN_OPTION("draft-always", "guess even when it is measured to be slower", .rare = true, .group = "Speed",
              BN_TO_BOOL(struct bn_run_options, draft_always)),
    {0},
};

static const struct bn_option GENERATE[] = {
    THINK(true),
    BN_OPTION("grammar", "generate only text of this GBNF grammar", .rare = true, .arg = "FILE",
              .group = "Form", BN_TO_TEXT(struct bn_run_options, grammar)),
    BN_OPTION("json-schema", "generate only JSON of this schema: a file, or {...}", .rare = true,
              .arg = "SCHEMA", .group = "Form", BN_TO_TEXT(struct bn_run_options, json_schema)),
    BN_OPTION("stop", "stop before this text", .rare = true, .arg = "TEXT", .group = "Stopping",
              .repeatable = true, BN_TO_TEXTS(struct bn_run_options, stops)),
    BN_OPTION("stop-id", "stop at these tokens", .rare = true, .arg = "IDS", .group = "Stopping",
              .repeatable = true, BN_TO_IDS(struct bn_run_options, stop_ids)),
    BN_OPTION("ignore-end", "keep generating past end-of-text tokens", .rare = true, .group = "Stopping",
              BN_TO_BOOL(struct bn_run_options, ignore_end)),
    BN_OPTION("receipt", "write a receipt for bn-verify-receipt", .arg = "FILE", .group = "Evidence",
              BN_TO_TEXT(struct bn_run_options, receipt)),
    BN_OPTION("receipt-text", "store prompt and answer in the receipt, not only digests", .rare = true,
              .group = "Evidence", BN_TO_BOOL(struct bn_run_options, receipt_text)),
    BN_OPTION("trace", "write every intermediate tensor into DIR", .rare = true, .arg = "DIR",
              .group = "Evidence", BN_TO_TEXT(struct bn_run_options, trace)),
    BN_OPTION("profile", "write the times of all operations", .rare = true, .arg = "FILE",
              .group = "Evidence", BN_TO_TEXT(struct bn_run_options, profile)),
    BN_OPTION("profile-level", "detail of --profile", .rare = true, .arg = "layer|brick|kernel",
              .group = "Evidence", .preset = "brick", BN_TO_CHOICE(struct bn_run_options, profile_level)),
    BN_OPTION("deterministic", "accepted for scripts; every run is deterministic", .rare = true,
              .group = "Evidence", .env = "BITNET_DETERMINISTIC"),
    BN_OPTION("batch-file", "continue each line of FILE (JSON), several at a time", .rare = true,
              .arg = "FILE", .group = "Input", BN_TO_TEXT(struct bn_run_options, batch_file)),
    BN_OPTION("sequences", "lines of --batch-file at a time [8]", .rare = true, .arg = "N",
              .group = "Machine", BN_TO_U32(struct bn_run_options, n_sequences, 1, 4096)),
    BN_OPTION("receipts", "with --batch-file: write DIR/0.json, DIR/1.json, ...", .rare = true, .arg = "DIR",
              .group = "Evidence", BN_TO_TEXT(struct bn_run_options, receipts)),
    BN_OPTION("logprobs", "with --json, --batch-file: log-probability of each token", .rare = true,
              .group = "Evidence", BN_TO_BOOL(struct bn_run_options, logprobs)),
    BN_OPTION("show-top", "with --json: the N best tokens of each step", .rare = true, .arg = "N",
              .group = "Evidence", BN_TO_U32(struct bn_run_options, n_top, 1, 1000)),
    BN_OPTION("assert-greedy", "exit 1 unless each token had the greatest logit", .rare = true,
              .group = "Evidence", BN_TO_BOOL(struct bn_run_options, assert_greedy)),
    BN_OPTION("timing", "print the times of each token on standard error", .rare = true, .group = "Evidence",
              .env = "BITNET_TRACE_TIMING", BN_TO_BOOL(struct bn_run_options, timing)),
    BN_OPTION("kernels", "print the kernels that ran on standard error", .rare = true, .group = "Evidence",
              .env = "BITNET_TRACE_QUANT", BN_TO_BOOL(struct bn_run_options, kernels)),
    BN_OPTION("strict", "refuse an unnamed model; a warning is an error", .rare = true, .group = "Evidence",
              .env = "BITNET_STRICT_MODE", BN_TO_BOOL(struct bn_run_options, strict)),
    {0},
};

static const struct bn_option CHAT[] = {
    THINK(false),
    BN_OPTION("prompt", "first message", .letter = 'p', .arg = "TEXT", .group = "Input",
              BN_TO_TEXT(struct bn_args, prompt), .shared = true),
    BN_OPTION("n-predict", "at most N tokens per answer [no limit; base model: 128]", .letter = 'n',
              .arg = "N", .group = "Sampling", BN_TO_U32_ALL(struct bn_run_options, n_predict, 1, 1u << 24)),
    BN_OPTION("receipts", "write DIR/0.json, DIR/1.json, ...: one for each answer", .rare = true,
              .arg = "DIR", .group = "Evidence", BN_TO_TEXT(struct bn_run_options, receipts)),
    BN_OPTION("no-history", "do not read or write the history of messages", .rare = true, .group = "Input",
              .env = "BN_NO_HISTORY", BN_TO_BOOL(struct bn_run_options, no_history)),
    {0},
};

static const struct bn_option TOKENIZE[] = {
    BN_OPTION("ids", "print the ids on one line, 1,2,3", .group = "Output",
              BN_TO_BOOL(struct bn_run_options, ids)),
    BN_OPTION("jsonl", "one JSON string per line in, one JSON array out", .group = "Input",
              BN_TO_BOOL(struct bn_run_options, jsonl)),
    BN_OPTION("no-bos", "omit the begin-of-sequence token", .group = "Tokens",
              BN_TO_BOOL(struct bn_run_options, no_bos)),
    BN_OPTION("special", "recognise special tokens in the text", .group = "Tokens",
              BN_TO_BOOL(struct bn_run_options, special)),
    {0},
};

static const struct bn_option DETOKENIZE[] = {
    BN_OPTION("special", "show special tokens too", .group = "Tokens",
              BN_TO_BOOL(struct bn_run_options, special)),
    {0},
};

static const struct bn_option SCORE[] = {
    BN_OPTION("per-token", "print each token's id and log-probability", .group = "Output",
              BN_TO_BOOL(struct bn_run_options, per_token)),
    {0},
};

static const struct bn_option LOGITS[] = {
    BN_OPTION("output", "write raw little-endian float32 rows to FILE", .letter = 'o', .arg = "FILE",
              .group = "Output", BN_TO_TEXT(struct bn_run_options, output)),
    BN_OPTION("all", "one row for every position [the last only]", .group = "Output",
              BN_TO_BOOL(struct bn_run_options, all)),
    BN_OPTION("digest", "print the SHA-256 of the same bytes", .group = "Output",
              BN_TO_BOOL(struct bn_run_options, digest)),
    BN_OPTION("trace", "write every intermediate tensor into DIR", .rare = true, .arg = "DIR",
              .group = "Output", BN_TO_TEXT(struct bn_run_options, trace)),
    {0},
};

static const struct bn_option EMBED[] = {
    BN_OPTION("prompt", "one text, as the argument TEXT", .letter = 'p', .arg = "TEXT", .group = "Input",
              BN_TO_TEXT(struct bn_args, prompt), .shared = true),
    BN_OPTION("file", "read texts from FILE, one a line; - is standard input", .letter = 'f', .arg = "FILE",
              .group = "Input", BN_TO_TEXT(struct bn_args, file), .shared = true),
    BN_OPTION("jsonl", "each line is a JSON string [a plain text]", .group = "Input",
              BN_TO_BOOL(struct bn_run_options, jsonl)),
    BN_OPTION("instruct", "put 'Instruct: TEXT\\nQuery:' before each text", .arg = "TEXT", .group = "Input",
              BN_TO_TEXT(struct bn_run_options, instruct)),
    BN_OPTION("pooling", "how tokens become one vector; file: as the model says", .group = "Output",
              .arg = "file|none|mean|first|last", .preset = "file",
              BN_TO_CHOICE(struct bn_run_options, pooling)),
    BN_OPTION("no-normalize", "keep the lengths of the vectors [length 1]", .group = "Output",
              BN_TO_BOOL(struct bn_run_options, no_normalize)),
    BN_OPTION("raw", "write little-endian float32 rows to FILE", .arg = "FILE", .group = "Output",
              BN_TO_TEXT(struct bn_run_options, raw)),
    BN_OPTION("similarity", "print a table of cosine similarities", .group = "Output",
              BN_TO_BOOL(struct bn_run_options, similarity)),
    {0},
};

static const struct bn_option INSPECT[] = {
    BN_OPTION("limits", "print the limits for model files, and nothing else", .group = "Output",
              BN_TO_BOOL(struct bn_run_options, limits)),
    OPTION_CTX,
    BN_OPTION_MAX_MEMORY,
    {0},
};

/* A text may be an argument wherever -p gives one. */
#define ONE_TEXT .max_operands = 1, .operand = "TEXT", .operand_is_text = true

static const struct bn_command COMMANDS[] = {
    {.name = "generate",
     .summary = "continue a text",
     .text =
         "The text is PROMPT, the value of -p, a file, or standard input. One final newline of a file and "
         "of standard input is dropped. A PROMPT of one word needs -p or the command's name before it, "
         "since it could be a misspelt command.\n\n-n -1 generates until the end of the text, or until "
         "the context is full.",
     .synopsis = "[-m MODEL] PROMPT | -p TEXT | -f FILE [-n N]",
     .options = {OPEN, REPACK, TEXT, IDS, TEMPLATE, CACHE, LENGTH, SAMPLING, DRAFT, GENERATE},
     .json = true,
     .max_operands = 1,
     .operand = "PROMPT",
     .operand_is_text = true,
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_generate,
     .follow = bn_run_follow,
     .examples = {{"bn-run 'ROMEO:'", "continue a text with the built-in model"},
                  {"bn-run -m model.gguf -p 'What is 2+2?' -n -1", "an answer of any length"},
                  {"bn-run -p 'ROMEO:' -n 64 --receipt r.json", "write a receipt of the run"}}},
    {.name = "chat",
     .summary = "chat interactively",
     .text =
         "Answers messages until the input ends. On a terminal a message is one line, or several with Alt-Enter, "
         "a \\ at the end of a line, or between two \"\"\"; /help lists the commands, Ctrl-C stops an answer, and "
         "Ctrl-D ends the program. In a pipe each line is a message, and only answers go to standard output.\n\n"
         "When the context is full, the oldest turns are dropped; the system message stays. A base model, "
         "which has no chat template, continues the text up to an empty line, by default with at most 128 "
         "tokens and temperature 0.7. Thoughts before an answer are not part of the following turns.\n\n"
         "With --json each line of input is a text, a command or {\"content\": TEXT}, and each line of output is "
         "one JSON object.",
     .synopsis = "[-m MODEL] [--system TEXT] [-p TEXT]",
     .options = {OPEN, REPACK, TEMPLATE, CACHE, CHAT, SAMPLING, DRAFT},
     .json = true,
     .max_operands = 1, /* for a better error */
     .operand = "MODEL",
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_chat,
     .follow = bn_run_follow,
     .examples = {{"bn-run chat -m model.gguf --temp 0.7", "chat with a model"},
                  {"bn-run chat -m model.gguf <questions.txt >answers.txt", "answer a file, line by line"}}},
    {.name = "tokenize",
     .summary = "turn text into tokens",
     .text = "The final newline of a file is part of the text.",
     .synopsis = "[-m MODEL] TEXT | -p TEXT | -f FILE | --jsonl [--ids]",
     .options = {VOCABULARY, TEXT, TOKENIZE},
     .json = true,
     ONE_TEXT,
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_tokenize,
     .examples = {{"bn-run tokenize --ids 'To be'", "the ids of a text"}}},
    {.name = "detokenize",
     .summary = "turn tokens into text",
     .synopsis = "[-m MODEL] --tokens IDS",
     .options = {VOCABULARY, IDS, DETOKENIZE},
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_detokenize,
     .examples = {{"bn-run detokenize --tokens 84,111", "the text of two tokens"}}},
    {.name = "score",
     .summary = "measure how well the model predicts a text",
     .text = "Prints the mean negative log likelihood (natural logarithm) and the perplexity. A text longer "
             "than the context is cut into windows; the first token of each is not scored. The final newline "
             "of a file is part of the text.",
     .synopsis = "[-m MODEL] TEXT | -p TEXT | -f FILE | --tokens IDS",
     .options = {OPEN, TEXT, IDS, SCORE},
     .json = true,
     ONE_TEXT,
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_score,
     .follow = bn_run_follow,
     .examples = {{"bn-run score -f text.txt --ctx 256", "perplexity of a text in windows of 256"}}},
    {.name = "logits",
     .summary = "write the network's raw output",
     .synopsis = "[-m MODEL] --tokens IDS | TEXT | -p TEXT | -f FILE [-o FILE] [--all] [--digest]",
     .options = {OPEN, TEXT, IDS, LOGITS},
     ONE_TEXT,
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_logits,
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
     .max_operands = BN_OPERANDS_ANY,
     .operand = "TEXT",
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_embed,
     .follow = bn_run_follow,
     .examples = {{"bn-run embed -m embedding.gguf 'a cat' 'a dog'", "two vectors"},
                  {"bn-run embed -m embedding.gguf -f texts.txt --similarity", "how alike the lines are"}}},
    {.name = "inspect",
     .summary = "show what is in a model file",
     .text =
         "Shows the memory that the model needs and that this machine has, the keys, the tensors with their "
         "statistics, and whether this engine runs the model. A file that does not run is shown as far "
         "as it can be read, and the exit code gives the reason.",
     .synopsis = "[-m MODEL] [--ctx N]",
     .options = {VOCABULARY, INSPECT},
     .json = true,
     .bytes = sizeof(struct bn_run_options),
     .run = bn_run_inspect},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-run",
    .summary = "run a ternary language model",
    .text = "Runs models with ternary (1.58-bit, BitNet) weights from GGUF files. The same tokens give the "
            "same logits, bit for bit, on every instruction set and with any number of threads.",
    .commands = COMMANDS,
    .default_command = "generate",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
