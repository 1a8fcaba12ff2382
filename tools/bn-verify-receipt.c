/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt: check the receipt of a run, and replay it. This file is the table of its commands; they
 * are in verify-receipt/.
 */
#include "tools/cli/options.h"
#include "tools/cli/programs.h"
#include "tools/verify-receipt/verify_receipt.h"

#define OF struct bn_verify_options /* whose fields the options set */

static const struct bn_option RECEIPT[] = {
    BN_RARE("path", "the receipt, when no operand names it", .group = "Receipt",
            .preset = "ci/inference.json", BN_TO_PATH(OF, path, NONE)),
    {0},
};

static const struct bn_option BATCH[] = {
    BN_OPTION("batch", "check all receipts of a list (-: stdin) or folder", .arg = "PATH", .group = "Batch",
              BN_TO_PATH(OF, batch, NONE)),
    BN_OPTION("sequences", "replay N receipts at a time", .preset = "16",
              BN_TO_U32(OF, n_sequences, 1, 1024)),
    BN_OPTION("junit", "also write the results as JUnit XML", BN_TO_PATH(OF, junit, WRITE)),
    {0},
};

static const struct bn_option SIGNATURE[] = {
    BN_OPTION("public-key", "require a signature by this Ed25519 key (PEM)", .group = "Signature",
              .repeatable = true, BN_TO_TEXTS(OF, keys), .path = BN_PATH_READ),
    BN_OPTION("require-signature", "refuse receipts that no given key signed",
              BN_TO_BOOL(OF, require_signature)),
    BN_OPTION("files", "check a release: its folder or one file of it", .arg = "PATH",
              BN_TO_PATH(OF, files, READ)),
    BN_RARE("unverified", "read a signed receipt without checking its signature", BN_TO_BOOL(OF, unverified)),
    {0},
};

static const struct bn_option DEMANDS[] = {
    BN_OPTION("policy", "requirements as JSON; options add to them", .group = "Demands",
              BN_TO_PATH(OF, policy, READ)),
    BN_RARE("require-gpu-kernels", "require a bound receipt of a GPU", BN_TO_BOOL(OF, require_gpu_kernels)),
    BN_RARE("require-quantized-kernels", "require quantised kernels and no fallback to floats",
            BN_TO_BOOL(OF, require_quantized_kernels)),
    BN_RARE("validate-performance", "check the speed against this machine's bandwidth",
            BN_TO_BOOL(OF, validate_performance)),
    BN_RARE("max-age", "refuse older receipts, e.g. 90s, 15m, 36h, 7d", .arg = "DUR",
            BN_TO_SECONDS(OF, max_age_s)),
    BN_RARE("allow-corrections", "accept corrected weights; with --policy only as option",
            .env = "BITNET_ALLOW_CORRECTIONS", BN_TO_BOOL(OF, allow_corrections)),
    {0},
};

static const struct bn_option REPLAY[] = {
    BN_OPTION("model", "GGUF file or downloaded model [the built-in model]", .letter = 'm', .arg = "MODEL",
              .group = "Model", .env = "BN_MODEL", .repeatable = true, BN_TO_TEXTS(OF, models),
              .path = BN_PATH_MODEL),
    BN_OPTION("replay", "run the request again and compare every token", .group = "Replay",
              BN_TO_BOOL(OF, replay)),
    BN_RARE("replay-steps", "steps of a training run to repeat", .preset = "4",
            BN_TO_U32(OF, n_replay_steps, 1, 100000000)),
    BN_RARE("texts", "folder of a training run's texts [the record's]", .arg = "DIR",
            BN_TO_PATH(OF, texts, READ)),
    BN_RARE("timeout", "time limit of repeating a training run", .arg = "DUR", .preset = "10m",
            BN_TO_SECONDS(OF, timeout_s)),
    BN_OPTION_ISA,
    BN_OPTION_DEVICE,
    BN_OPTION_THREADS_TO(OF, n_threads),
    BN_RARE("prompt-batch", "evaluate N tokens of the prompt together", BN_TO_U32(OF, n_batch, 1, 4096)),
    {0},
};

static const struct bn_option SIGN[] = {
    BN_OPTION("key", "Ed25519 private key (PEM), readable only by you", .letter = 'k',
              BN_TO_PATH(OF, key, READ)),
    BN_OPTION("output", "write the envelope to FILE, not to standard output", .letter = 'o',
              BN_TO_PATH(OF, output, WRITE)),
    {0},
};

static const struct bn_option RULES[] = {
    BN_OPTION("training", "the rules of training.json", BN_TO_BOOL(OF, training)),
    {0},
};

static const struct bn_option KEYGEN[] = {
    BN_OPTION("output", "write NAME (private) and NAME.pub; neither may exist", .letter = 'o', .arg = "NAME",
              BN_TO_PATH(OF, output, WRITE)),
    {0},
};

static const struct bn_sandbox VERIFYING = {BN_SANDBOX, .more = bn_verify_allow};
static const struct bn_sandbox SANDBOX = {BN_SANDBOX, .secrets = true};

static const struct bn_command COMMANDS[] = {
    {.name = "verify",
     .summary = "check a receipt by every rule",
     .text = "Prints the verdict, the level that was reached, and each rule that failed, with the reason; -v "
             "prints every rule. The levels are integrity (digests and signatures are right), consistency "
             "(the numbers fit together and the requirements are met) and replay (the same tokens were "
             "generated again). The signature is checked before anything inside is read. "
             "--validate-performance compares the bytes per second with what this machine's memory delivers; "
             "on a busy machine it may be undecided (exit 9).",
     .synopsis = "[FILE] [--policy FILE] [--public-key FILE] [--model FILE] [--replay]\n"
                 "FILE FILE... | DIR | --batch LIST [--replay]\n"
                 "PROVENANCE --public-key FILE --files PATH",
     .options = {RECEIPT, BATCH, SIGNATURE, DEMANDS, REPLAY},
     .json = true,
     BN_PATHS(0, BN_OPERANDS_ANY, "FILE", READ),
     BN_SANDBOXED(VERIFYING, bn_verify_verify),
     .divides = true, /* several receipts */
     .examples = {{"bn-verify-receipt r.json -v", "check a receipt and list every rule"},
                  {"bn-verify-receipt r.json --replay", "check it and run its request again"},
                  {"bn-verify-receipt receipts --replay", "all receipts of a folder"},
                  {"bn-verify-receipt r.json --replay --isa ref --threads 1",
                   "replay on other kernels; the result must be the same"}}},
    {.name = "sign",
     .summary = "wrap a receipt or a provenance into a signed envelope",
     .text = "The envelope is DSSE 1.0.2 around the canonical statement, signed with Ed25519. A receipt "
             "with a wrong digest is not signed.",
     .synopsis = "FILE --key FILE [-o FILE]",
     .options = {SIGN},
     BN_PATHS(1, 1, "FILE", READ),
     BN_SANDBOXED(SANDBOX, bn_verify_sign),
     .examples = {{"bn-verify-receipt sign r.json --key bn.key -o r.dsse.json", "sign a receipt"}}},
    {.name = "keygen",
     .summary = "make a key pair",
     .synopsis = "-o NAME",
     .options = {KEYGEN},
     .json = true,
     BN_SANDBOXED(SANDBOX, bn_verify_keygen),
     .examples = {{"bn-verify-receipt keygen -o bn.key", "keep bn.key; give bn.key.pub to verifiers"}}},
    {.name = "rules",
     .summary = "list the rules",
     .synopsis = "[--training]",
     .options = {RULES},
     .json = true,
     BN_SANDBOXED(SANDBOX, bn_verify_rules)},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-verify-receipt",
    .summary = BN_SUMMARY_VERIFY_RECEIPT,
    .text =
        "A receipt states which model generated which tokens from which request, with which kernels, how "
        "fast, and where. This program checks it: digests, numbers, signature, and by running the request "
        "again.",
    .commands = COMMANDS,
    .bytes = sizeof(OF),
    .default_command = "verify",
    .exits = {{"1", "the receipt was refused; results differ"},
              {"9", "no rule failed, and nothing is shown: undecided, or nothing binds it to a run"},
              {"5", "a digest or a signature is wrong"}},
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
