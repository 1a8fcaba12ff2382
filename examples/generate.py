#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Continues a prompt by libbn.so, with Python's standard library alone.

    python3 generate.py model.gguf 'ROMEO:' 32

BN_LIBRARY names the library when it is not where the system looks for it.
"""
import ctypes as c
import os
import sys


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("sys_errno", c.c_int), ("offset", c.c_uint64), ("where", c.c_char * 96),
                ("msg", c.c_char * 256), ("hint", c.c_char * 160)]


class Sampling(c.Structure):
    _fields_ = [("temperature", c.c_float), ("top_k", c.c_uint32), ("top_p", c.c_float), ("min_p", c.c_float),
                ("repeat_penalty", c.c_float), ("repeat_last", c.c_uint32), ("seed", c.c_uint64)]


TokenFunction = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_int32, c.POINTER(c.c_char), c.c_size_t)


class Draft(c.Structure):
    _fields_ = [("kind", c.c_int), ("session", c.c_void_p), ("most", c.c_uint32), ("always", c.c_bool),
                ("given", c.c_void_p), ("n_given", c.c_size_t)]


class Generation(c.Structure):
    _fields_ = [("prompt", c.POINTER(c.c_int32)), ("n_prompt", c.c_size_t), ("n_cached", c.c_size_t),
                ("n_predict", c.c_uint32), ("n_ctx", c.c_uint32), ("sampling", Sampling), ("stop_ids", c.c_void_p),
                ("n_stop_ids", c.c_size_t), ("stops", c.POINTER(c.c_char_p)), ("n_stops", c.c_size_t),
                ("grammar", c.c_void_p), ("ignore_end", c.c_bool), ("want_chain", c.c_bool), ("want_logprobs", c.c_bool),
                ("n_top", c.c_uint32), ("on_token", TokenFunction), ("user", c.c_void_p), ("draft", Draft),
                ("ids", c.POINTER(c.c_int32)), ("token_ns", c.c_void_p), ("steps", c.c_void_p), ("top", c.c_void_p), ("logprobs", c.c_void_p),
                ("log_sums", c.c_void_p), ("n_ids", c.c_size_t), ("reason", c.c_int), ("stuck", c.c_int), ("grammar_cost", c.c_uint64), ("prefill_ns", c.c_uint64),
                ("decode_ns", c.c_uint64), ("total_ns", c.c_uint64), ("chain", c.c_char * 65),
                ("n_before", c.c_uint32), ("n_together", c.c_uint32), ("work", c.c_uint64 * 8),
                ("screen", c.c_uint64 * 5), ("drafts", c.c_uint64 * 3), ("ranks", c.c_uint64 * 4),
                ("kernels", c.c_void_p), ("n_kernels", c.c_size_t)]


bn = c.CDLL(os.environ.get("BN_LIBRARY", "libbn.so.0"))
bn.bn_model_open.argtypes = [c.POINTER(c.c_void_p), c.c_char_p, c.c_void_p, c.POINTER(Error)]
bn.bn_model_tokenizer.argtypes = [c.c_void_p]
bn.bn_model_tokenizer.restype = c.c_void_p
bn.bn_tokenize.argtypes = [c.c_void_p, c.c_char_p, c.c_size_t, c.c_uint, c.POINTER(c.POINTER(c.c_int32)),
                           c.POINTER(c.c_size_t), c.POINTER(Error)]
bn.bn_session_open.argtypes = [c.POINTER(c.c_void_p), c.c_void_p, c.c_void_p, c.POINTER(Error)]
bn.bn_generate.argtypes = [c.c_void_p, c.c_void_p, c.POINTER(Generation), c.POINTER(Error)]
bn.bn_generation_release.argtypes = [c.POINTER(Generation)]
for close in (bn.bn_free, bn.bn_session_close, bn.bn_model_close):
    close.argtypes = [c.c_void_p]
    close.restype = None
BN_TOKENIZE_BOS = 1


def check(status, error):
    if status != 0:
        sys.exit(f"error: {error.where.decode()}: {error.msg.decode()}")


def main(path, prompt, n_predict):
    error, model, session, ids, n_ids = Error(), c.c_void_p(), c.c_void_p(), c.POINTER(c.c_int32)(), c.c_size_t()
    text = prompt.encode()

    @TokenFunction
    def on_token(_user, _id, piece, n_bytes):
        sys.stdout.write(piece[:n_bytes].decode(errors="replace"))
        sys.stdout.flush()
        return True  # False stops the generation

    check(bn.bn_model_open(model, path.encode(), None, error), error)
    tokenizer = bn.bn_model_tokenizer(model)
    check(bn.bn_tokenize(tokenizer, text, len(text), BN_TOKENIZE_BOS, ids, n_ids, error), error)
    check(bn.bn_session_open(session, model, None, error), error)
    generation = Generation(prompt=ids, n_prompt=n_ids.value, n_predict=n_predict, on_token=on_token)
    check(bn.bn_generate(session, tokenizer, generation, error), error)
    print(f"\n[{generation.n_ids} tokens in {generation.total_ns / 1e6:.0f} ms]")
    bn.bn_generation_release(generation)
    bn.bn_session_close(session)
    bn.bn_free(ids)
    bn.bn_model_close(model)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} MODEL.gguf PROMPT N")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
