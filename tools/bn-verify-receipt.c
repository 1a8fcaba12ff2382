/* SPDX-License-Identifier: MIT
 *
 * bn-verify-receipt: check the receipt of a run, and replay it. This file is the table of its commands; they
 * are in verify-receipt/.
 */
#include "tools/cli/options.h"
#include "tools/cli/programs.h"
#include "tools/verify-receipt/verify_receipt.h"

static const struct bn_option RECEIPT[] = {
    {.name = "path",
     .arg = "FILE",
     .group = "Receipt",
     .preset = "ci/inference.json",
     .help = "the receipt, unless an operand names it"},
    {.name = "diff",
     .arg = "OTHER",
     .group = "Receipt",
     .help = "compare with the receipt OTHER; both must verify"},
    {0},
};

static const struct bn_option SIGNATURE[] = {
    {.name = "public-key",
     .arg = "FILE",
     .group = "Signature",
     .repeatable = true,
     .help = "Ed25519 public key (PEM) that must have signed; then an unsigned receipt is refused"},
    {.name = "require-signature", .group = "Signature", .help = "refuse what no given key has signed"},
    {.name = "unverified",
     .group = "Signature",
     .help = "look into a signed receipt without a key; its signature is not checked"},
    {0},
};

static const struct bn_option DEMANDS[] = {
    {.name = "policy", .arg = "FILE", .group = "Demands", .help = "demands as JSON; options add to them"},
    {.name = "require-gpu-kernels", .group = "Demands", .help = "kernels of a GPU must have run"},
    {.name = "require-quantized-kernels",
     .group = "Demands",
     .help = "quantised kernels must have run, and no fallback to floats"},
    {.name = "validate-performance",
     .group = "Demands",
     .help =
         "memory must be able to deliver the bytes in the time; a busy verifier may be undecided (exit 9)"},
    {.name = "max-age", .arg = "DUR", .group = "Demands", .help = "refuse older ones: 90, 90s, 15m, 36h, 7d"},
    {.name = "allow-corrections",
     .group = "Demands",
     .env = "BITNET_ALLOW_CORRECTIONS",
     .help = "accept corrected weights; the variable does not count next to --policy"},
    {0},
};

static const struct bn_option REPLAY[] = {
    BN_OPTION_MODEL,
    {.name = "replay", .group = "Replay", .help = "run the request again and compare every token"},
    BN_OPTION_ISA,
    BN_OPTION_THREADS,
    {.name = "batch", .arg = "N", .group = "Machine", .help = "tokens of the prompt evaluated together"},
    {0},
};

static const struct bn_option SIGN[] = {
    {.name = "key", .letter = 'k', .arg = "FILE", .help = "Ed25519 private key (PEM), readable by you alone"},
    {.name = "output",
     .letter = 'o',
     .arg = "FILE",
     .help = "where the envelope goes; without it standard output"},
    {0},
};

static const struct bn_option KEYGEN[] = {
    {.name = "output",
     .letter = 'o',
     .arg = "NAME",
     .help = "the private key goes to NAME, the public one to NAME.pub; neither may exist"},
    {0},
};

static const struct bn_command COMMANDS[] = {
    {.name = "verify",
     .summary = "check a receipt by every rule",
     .text =
         "Prints the verdict, the level that was reached, and each rule that failed with the reason; -v "
         "prints every rule. The levels are integrity (digests and signatures hold), consistency (the "
         "numbers fit together and the demands are met), replay (the same tokens were generated again). The "
         "signature is checked before anything inside is read.",
     .synopsis = "[FILE] [--policy FILE] [--public-key FILE] [--model FILE] [--replay]\nFILE --diff OTHER",
     .options = {RECEIPT, SIGNATURE, DEMANDS, REPLAY},
     .json = true,
     .max_operands = 1,
     .operand = "FILE",
     .run = bn_verify_verify,
     .examples = {{"bn-verify-receipt r.json -v", "check a receipt and list every rule"},
                  {"bn-verify-receipt r.json --replay", "check it and run its request again"},
                  {"bn-verify-receipt r.json --replay --isa ref --threads 1",
                   "the same on other kernels: the result has to be the same"},
                  {"bn-verify-receipt --policy ci/receipt-policy.json",
                   "what CI does with ci/inference.json"},
                  {"bn-verify-receipt r.json --diff other.json", "what differs between two runs"}}},
    {.name = "sign",
     .summary = "wrap a receipt into a signed envelope",
     .text = "The envelope is DSSE 1.0.2 around the canonical statement, signed with Ed25519. A receipt "
             "whose own "
             "digest does not hold is not signed.",
     .synopsis = "FILE --key FILE [-o FILE]",
     .options = {SIGN},
     .min_operands = 1,
     .max_operands = 1,
     .operand = "FILE",
     .run = bn_verify_sign,
     .examples = {{"bn-verify-receipt sign r.json --key bn.key -o r.dsse.json", "sign a receipt"}}},
    {.name = "keygen",
     .summary = "make a pair of keys",
     .synopsis = "-o NAME",
     .options = {KEYGEN},
     .run = bn_verify_keygen,
     .examples = {{"bn-verify-receipt keygen -o bn.key",
                   "bn.key stays with you, bn.key.pub goes to verifiers"}}},
    {.name = "rules",
     .summary = "list the rules",
     .synopsis = "",
     .options = {0},
     .json = true,
     .run = bn_verify_rules},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-verify-receipt",
    .summary = BN_SUMMARY_VERIFY_RECEIPT,
    .text = "Receipts say which model made which tokens from which request, with which kernels, how fast, "
            "and where. "
            "This program tells whether that is true, as far as a receipt can show it "
            "(docs/explain/receipts.md says how far that is).",
    .commands = COMMANDS,
    .default_command = "verify",
    .exits = {{"1", "the receipt was refused; results differ"},
              {"9", "--validate-performance could not be decided on this machine; no rule failed"},
              {"5", "a digest or a signature does not hold"}},
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
