/* SPDX-License-Identifier: MIT
 *
 * bn-download: models arrive whole, or not at all. This file is the table of its commands; they are in
 * download/, each with its options.
 */
#include "tools/cli/programs.h"
#include "tools/download/download.h"

static const struct bn_command COMMANDS[] = {
    {.name = "get",
     .summary = "fetch models",
     .text = "MODEL is a name of the registry (bn-download list), hf:OWNER/REPO[:FILE][@REVISION], or a URL. "
             "The path of the file is printed when it is there, whole, with the digest that it should have; "
             "what an earlier run left is taken up again, whatever ended it. Files go to the cache that "
             "other tools of the Hugging Face hub use too; a URL's to the current folder.\n\n"
             "With --json events are printed, one a line; the last line is the result, or the error.",
     .synopsis = "MODEL... [--to DIR] [--sha256 HEX]\n--lock FILE [--to DIR]",
     .options = {bn_download_get_options, bn_download_network_options},
     .json = true,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "MODEL",
     .run = bn_download_get,
     .examples = {{"bn-download bitnet-b1.58-2b-4t", "by its name in the registry"},
                  {"bn-download hf:microsoft/bitnet-b1.58-2B-4T-gguf", "the model file of a repository"},
                  {"bn-download hf:OWNER/REPO:model.gguf@v1.0 --to models", "one file at a tag, in a folder"},
                  {"bn-download https://example.org/model.gguf --sha256 HEX",
                   "any file, held against a digest"},
                  {"bn-run -m \"$(bn-download -q bitnet-2b)\" -p Hello", "fetch when needed, then run"},
                  {"bn-download --lock models.lock --offline", "is everything here?"}}},
    {.name = "list",
     .summary = "show the models of the registry, or what the cache holds",
     .synopsis = "[--cached | --names]",
     .options = {bn_download_list_options},
     .json = true,
     .run = bn_download_list,
     .examples = {{"bn-download list", "names, sizes, licences, and what runs here"},
                  {"bn-download list --cached", "what is on this machine"}}},
    {.name = "path",
     .summary = "print where a model is; nothing is fetched",
     .synopsis = "MODEL",
     .min_operands = 1,
     .max_operands = 1,
     .operand = "MODEL",
     .run = bn_download_path,
     .examples = {{"bn-download path bitnet-2b", "exit code 3 when it is not here"}}},
    {.name = "verify",
     .summary = "compare what is here with every digest that is known of it",
     .text =
         "MODEL is what get takes, or a file; without any, the whole cache is verified. Nothing is asked of "
         "the network. Every digest that is known must hold: the one that the hub gave, a lock file's, "
         "and, for what the registry names, its pin or the digest of the first download.",
     .synopsis = "[MODEL...] [--lock FILE]\nFILE --sha256 HEX",
     .options = {bn_download_verify_options},
     .json = true,
     .max_operands = BN_OPERANDS_ANY,
     .operand = "MODEL",
     .run = bn_download_verify,
     .examples = {{"bn-download verify", "everything in the cache"},
                  {"bn-download verify bitnet-2b", "one model"},
                  {"bn-download verify models/model.gguf --lock models.lock", "a file that lies elsewhere"}}},
    {.name = "clean",
     .summary = "find what in the cache serves nobody, and remove it",
     .text =
         "Unfinished downloads, bytes that were not those wanted, and blobs that are in no snapshot. What "
         "another process is fetching stays.",
     .synopsis = "[--old] [--yes]",
     .options = {bn_download_clean_options},
     .json = true,
     .run = bn_download_clean,
     .examples = {{"bn-download clean", "what could go, and how many bytes that is"},
                  {"bn-download clean --old --yes", "remove it, and superseded snapshots too"}}},
    {.name = "lock",
     .summary = "write down which bytes exactly models are",
     .text = "The lock file names repository, commit, file, size and digest of each MODEL; without any, of "
             "everything in the cache. 'bn-download --lock FILE' fetches exactly that. The same models give "
             "the same bytes.",
     .synopsis = "[MODEL...] [-o FILE]",
     .options = {bn_download_lock_options, bn_download_network_options},
     .max_operands = BN_OPERANDS_ANY,
     .operand = "MODEL",
     .run = bn_download_lock,
     .examples = {{"bn-download lock bitnet-2b -o models.lock", "to be kept beside the sources"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-download",
    .summary = BN_SUMMARY_DOWNLOAD,
    .text = "Fetches models from the Hugging Face hub, a mirror of it, or any URL. A file appears under its "
            "name only when all of its bytes are there and its digest is right.",
    .commands = COMMANDS,
    .default_command = "get",
    .exits = {{"1", "verify: there was nothing that could be verified"},
              {"3", "no such model, repository, revision or file; or not here, with --offline"},
              {"5", "the bytes are not those wanted"},
              {"6", "network, after the retries"},
              {"7", "access is granted by the repository's owners, or the token is wrong"},
              {"8", "disk full, or another process is fetching it (--no-wait)"}},
    .environment = {{"HF_TOKEN", "token for private and gated repositories; else the file that HF_TOKEN_PATH "
                                 "names, else HF_HOME/token"},
                    {"HF_ENDPOINT", "the hub to ask, https://huggingface.co"},
                    {"HF_HUB_OFFLINE", "1: nothing is asked of the network"},
                    {"HF_HUB_CACHE", "the cache; else HF_HOME/hub, else ~/.cache/huggingface/hub"},
                    {"BN_REGISTRY", "a registry of your own, in place of the one that the program carries"},
                    {"https_proxy, no_proxy", "as curl takes them"},
                    {"SSL_CERT_FILE",
                     "certificates to trust, in place of the system's; also CURL_CA_BUNDLE"}},
    .see_also = "bn-run(1), bn(7)",
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
