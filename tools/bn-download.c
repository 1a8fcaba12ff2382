/* SPDX-License-Identifier: MIT
 *
 * bn-download: downloads models; only complete and verified files appear. This file is the table of its
 * commands; they are in download/, each with its options.
 */
#include "tools/cli/program/sandbox.h"
#include "tools/cli/programs.h"
#include "tools/download/download.h"

static const struct bn_sandbox SANDBOX = {BN_SANDBOX, .connects = true, .secrets = true,
                                          .more = bn_download_allow};

static const struct bn_command COMMANDS[] = {
    {.name = "get",
     .summary = "download models, complete and verified",
     .text = "MODEL is a name of the registry (bn-download list), OWNER/REPO[:FILE][@REVISION] of the "
             "Hugging Face hub, also with hf: before it, or a URL. The path of the complete, verified file "
             "is printed. An unfinished download is resumed. Files go to the cache that the hub's own tools "
             "use too; with --to, and for a URL, to a folder.\n\nWith --json events are printed, one per "
             "line; the last line is the result or the error.",
     .synopsis = "MODEL... [--to DIR] [--sha256 HEX]\n--lock FILE [--to DIR]",
     .options = {bn_download_get_options, bn_download_network_options},
     .json = true,
     BN_PATHS(0, BN_OPERANDS_ANY, "MODEL", READ),
     BN_SANDBOXED(SANDBOX, bn_download_get),
     .examples = {{"bn-download bitnet-b1.58-2b-4t", "by its name in the registry"},
                  {"bn-download microsoft/bitnet-b1.58-2B-4T-gguf", "the GGUF file of a repository"},
                  {"bn-download OWNER/REPO:model.gguf@v1.0 --to models", "one file at a tag, to a folder"}}},
    {.name = "tokenizer",
     .summary = "download a model's tokenizer files, and check them",
     .text = "The files are tokenizer.json, tokenizer_config.json and tokenizer.model, those that the "
             "repository has. Each is parsed. A GGUF model has its own vocabulary; --check compares the "
             "number of tokens, their texts, and the ids of special tokens.",
     .synopsis = "NAME|OWNER/REPO[@REVISION] [--to DIR] [--check MODEL]",
     .options = {bn_download_tokenizer_options, bn_download_network_options},
     .json = true,
     BN_PATHS(1, 1, "MODEL", READ),
     BN_SANDBOXED(SANDBOX, bn_download_tokenizer),
     .examples = {{"bn-download tokenizer bitnet-2b --to tok", "to a folder"},
                  {"bn-download tokenizer bitnet-2b --check bitnet-2b", "exit code 1 when they differ"}}},
    {.name = "list",
     .summary = "list models of the registry, or files in the cache",
     .synopsis = "[--cached | --names]",
     .options = {bn_download_list_options},
     .json = true,
     BN_SANDBOXED(SANDBOX, bn_download_list),
     .examples = {{"bn-download list", "names, sizes, licences, and what runs here"},
                  {"bn-download list --cached", "the files on this machine"}}},
    {.name = "path",
     .summary = "print the path of a downloaded model",
     .text =
         "Nothing is downloaded. A file that is damaged is an error; its bytes are read when they are new "
         "or have changed.",
     .synopsis = "MODEL",
     BN_PATHS(1, 1, "MODEL", READ),
     BN_SANDBOXED(SANDBOX, bn_download_path),
     .examples = {{"bn-download path bitnet-2b", "exit code 3 when it is not here"}}},
    {.name = "verify",
     .summary = "compare files with all digests that are known of them",
     .text = "MODEL is what get takes, or a file; without one, the whole cache is verified. The network is "
             "not used. A file is compared with all digests that are known of it: of the hub, a lock file, "
             "the registry, or the first download.",
     .synopsis = "[MODEL...] [--lock FILE]\nFILE --sha256 HEX",
     .options = {bn_download_verify_options},
     .json = true,
     BN_PATHS(0, BN_OPERANDS_ANY, "MODEL", READ),
     BN_SANDBOXED(SANDBOX, bn_download_verify),
     .examples = {{"bn-download verify", "everything in the cache"},
                  {"bn-download verify bitnet-2b", "one model"},
                  {"bn-download verify models/model.gguf --lock models.lock", "a file outside the cache"}}},
    {.name = "clean",
     .summary = "list unused files in the cache; --yes deletes them",
     .text = "Unused are unfinished downloads, files with a wrong digest, and blobs of no snapshot. A file "
             "that another process is downloading is kept.",
     .synopsis = "[--old] [--yes]",
     .options = {bn_download_clean_options},
     .json = true,
     BN_SANDBOXED(SANDBOX, bn_download_clean),
     .examples = {{"bn-download clean", "the unused files and their sizes"},
                  {"bn-download clean --old --yes", "delete them, and old snapshots too"}}},
    {.name = "lock",
     .summary = "write a lock file: versions and digests of models",
     .text =
         "The lock file contains repository, commit, file, size and digest of each MODEL; without one, of "
         "everything in the cache. 'bn-download --lock FILE' downloads exactly these files. The same "
         "models give the same lock file.",
     .synopsis = "[MODEL...] [-o FILE]",
     .options = {bn_download_lock_options, bn_download_network_options},
     BN_PATHS(0, BN_OPERANDS_ANY, "MODEL", READ),
     BN_SANDBOXED(SANDBOX, bn_download_lock),
     .examples = {{"bn-download lock bitnet-2b -o models.lock", "to be kept with the sources"}}},
    {.name = "doctor",
     .summary = "check what a download needs: space, network, token",
     .text = "Each line is ok, note or FAIL, with a way to fix it. With MODEL its size is compared with the "
             "free space, and the hub is asked for it. Nothing is downloaded. The token is never printed.",
     .synopsis = "[MODEL] [--to DIR] [--offline] [--require CHECK]...",
     .options = {bn_download_doctor_options},
     .json = true,
     BN_PATHS(0, 1, "MODEL", READ),
     BN_SANDBOXED(SANDBOX, bn_download_doctor),
     .examples = {{"bn-download doctor bitnet-2b", "exit code 1 when a download would fail"}}},
    {0},
};

static const struct bn_program PROGRAM = {
    .name = "bn-download",
    .summary = BN_SUMMARY_DOWNLOAD,
    .text =
        "Downloads models from the Hugging Face hub, a mirror of it, or any URL. A file appears under its "
        "name only when it is complete and its digest is right.",
    .commands = COMMANDS,
    .bytes = sizeof(struct bn_download_options),
    .default_command = "get",
    .exits =
        {{"1",
          "verify: nothing could be verified; doctor: a download would fail; tokenizer: it does not fit the "
          "model"},
         {"3", "no such model, repository, revision or file; or not here, with --offline"},
         {"4", "the server sent something else, such as a web page; or a malformed lock file or registry"},
         {"5", "the bytes do not have the expected digest"},
         {"6", "network error, after all retries"},
         {"7", "access needs approval by the repository's owners, or the token is wrong"},
         {"8", "disk full, or another process downloads the file (--no-wait)"}},
    .environment = {{"HF_TOKEN", "token for private and gated repositories; else the file that HF_TOKEN_PATH "
                                 "names, else HF_HOME/token"},
                    {"HF_ENDPOINT", "address of the hub [https://huggingface.co]"},
                    {"HF_HUB_OFFLINE", "1: do not use the network"},
                    {"HF_HUB_CACHE", "the cache; else HF_HOME/hub, else ~/.cache/huggingface/hub"},
                    {"BN_REGISTRY", "file with a registry to use instead of the built-in one"},
                    {"https_proxy, no_proxy", "proxy for https, as in curl; http never uses one"},
                    {"SSL_CERT_FILE", "certificates to trust instead of the system's; also CURL_CA_BUNDLE"}},
};

int main(int argc, char **argv)
{
    return bn_cli_main(&PROGRAM, argc, argv);
}
