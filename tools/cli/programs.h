/* SPDX-License-Identifier: MIT
 *
 * What each program of the toolchain is for, in half a line: for its table, and for the front door.
 */
#ifndef BN_CLI_PROGRAMS_H
#define BN_CLI_PROGRAMS_H

#define BN_SUMMARY_RUN "run a ternary language model"
#define BN_SUMMARY_SERVE "serve models to OpenAI, Anthropic and Ollama clients"
#define BN_SUMMARY_VERIFY_RECEIPT "check the receipt of a run, and replay it"
#define BN_SUMMARY_BENCH "time models and kernels, next to the machine's limits"
#define BN_SUMMARY_FLAMEGRAPH "show where the time goes, and what a change did"
#define BN_SUMMARY_DOWNLOAD "download models, complete and verified"
#define BN_SUMMARY_CONVERT "convert models to GGUF, and between ternary types"
#define BN_SUMMARY_TRAIN "train a ternary model on text"
#define BN_SUMMARY_CROSSVAL "compare the engine with other engines"
#define BN_SUMMARY_FIXTURES "make and verify models and golden outputs"
#define BN_SUMMARY_GIT "show the git stamp of a directory"

#endif
