# SPDX-License-Identifier: MIT
"""What bn.h declares, by ctypes. Private: `bn` is the interface. tests/test_library.py compares it with bn.h."""
from __future__ import annotations

import ctypes as c
import enum
import operator
import os
from typing import Any, Callable, Iterable, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "0.1.0"  # of the header that this is written for


class Status(enum.IntEnum):
    """Why something failed: bn_status of bn.h."""

    OK, ARG, NOT_FOUND, FORMAT, LIMIT, UNSUPPORTED, MISMATCH, INTEGRITY, NETWORK, AUTH, IO, NOMEM, CANCELLED, INTERNAL = range(14)


Setting = enum.IntEnum("Setting", """N_PREDICT N_CTX N_CACHED TEMPERATURE TOP_K TOP_P MIN_P REPEAT_PENALTY REPEAT_LAST SEED
    IGNORE_END CHAIN LOGPROBS N_TOP MOST_DRAFTS PRESENCE_PENALTY FREQUENCY_PENALTY""", start=0)
Figure = enum.IntEnum("Figure", "N_VOCAB N_CTX N_EMBD N_LAYER N_HEAD N_HEAD_KV N_FF HEAD_DIM N_EXPERTS STATE_BYTES POOLING", start=0)
Pooling = enum.IntEnum("Pooling", "FILE NONE MEAN FIRST LAST", start=0)
Logits = enum.IntEnum("Logits", "NONE LAST ALL", start=0)
Repack = enum.IntEnum("Repack", "NEVER AUTO ALWAYS", start=0)
Tokenize = enum.IntFlag("Tokenize", "BOS SPECIAL")


class Error(Exception):
    """What the library or bn-verify-receipt refused: `status`, `message`, `where` (file or key), `hint`, `offset`."""

    def __init__(self, status: Status, message: str, where: str = "", hint: str = "", offset: Optional[int] = None) -> None:
        super().__init__(": ".join(part for part in (where, message) if part) + (f" ({hint})" if hint else ""))
        self.status, self.message, self.where, self.hint, self.offset = status, message, where, hint, offset


class ErrorStruct(c.Structure):
    _fields_ = [("code", c.c_int), ("sys_errno", c.c_int), ("offset", c.c_uint64), ("where", c.c_char * 96),
                ("msg", c.c_char * 256), ("hint", c.c_char * 160)]


class ModelOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("repack", c.c_int), ("repack_later", c.c_bool), ("no_mmap", c.c_bool),
                ("no_weights", c.c_bool), ("skip_code_check", c.c_bool), ("progress", c.c_void_p), ("user", c.c_void_p),
                ("device", c.c_char_p)]


class SessionOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("n_ctx", c.c_uint32), ("n_batch", c.c_uint32), ("n_threads", c.c_uint32),
                ("exact_threads", c.c_bool), ("snapshot_bytes", c.c_uint64)]


class EmbedOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("pooling", c.c_int), ("as_is", c.c_bool)]


class MessageStruct(c.Structure):
    _fields_ = [("role", c.c_char_p), ("content", c.c_char_p)]


class Candidate(c.Structure):
    _fields_ = [("id", c.c_int32), ("logit", c.c_float)]


P, Bytes, Size = c.c_void_p, c.c_char_p, c.c_size_t
Out, Ids, Sizes = c.POINTER(P), c.POINTER(c.c_int32), c.POINTER(Size)


def _open() -> c.CDLL:
    """BN_LIBRARY, the library in this package, or that of the system."""
    own = os.path.join(HERE, "libbn.so")
    name = os.environ.get("BN_LIBRARY") or (own if os.path.exists(own) else "libbn.so.0")
    try:
        library = c.CDLL(name)
        library.bn_version.restype = Bytes
        found = library.bn_version().decode()
    except (OSError, AttributeError) as error:
        raise ImportError(f"bn: the library cannot be loaded: {error}; BN_LIBRARY names another one") from None
    if found != VERSION:
        raise ImportError(f"bn: {name} has version {found}, and this package needs {VERSION}")
    return library


library = _open()


def function(name: str, *arguments: Any, result: Any = None) -> Any:
    f = getattr(library, name)
    f.argtypes, f.restype = arguments, result
    return f


def call(name: str, *arguments: Any) -> Callable[..., None]:
    """A function that returns a status and takes a bn_error last. Raises Error."""
    f = function(name, *arguments, c.POINTER(ErrorStruct), result=c.c_int)

    def checked(*values: Any) -> None:
        error = ErrorStruct()
        status = f(*values, c.byref(error))
        if status != Status.OK:
            where, message, hint = (text.decode(errors="replace") for text in (error.where, error.msg, error.hint))
            raise Error(Status(status), message or status_name(status).decode(), where, hint,
                        error.offset if 0 < error.offset < 2**64 - 1 else None)

    return checked


status_name = function("bn_status_name", c.c_int, result=Bytes)
free, model_close, session_close, grammar_close, query_close, scheduler_close, generation_close = (
    function(f"bn_{name}", P) for name in ("free", *(f"{part}_close" for part in "model session grammar query scheduler generation".split())))
model_open = call("bn_model_open", Out, Bytes, c.POINTER(ModelOptions))
model_get = function("bn_model_get", P, c.c_int, result=c.c_uint64)
model_arch = function("bn_model_arch", P, result=Bytes)
model_tokenizer = function("bn_model_tokenizer", P, result=P)
tokenize = call("bn_tokenize", P, Bytes, Size, c.c_uint, c.POINTER(Ids), Sizes)
detokenize = call("bn_detokenize", P, Ids, Size, c.c_bool, Out, Sizes)
token_bytes = function("bn_token_bytes", P, c.c_int32, Out, result=Size)
token_is_control = function("bn_token_is_control", P, c.c_int32, result=c.c_bool)
tokenizer_eos = function("bn_tokenizer_eos", P, result=c.c_int32)
template_from_name = function("bn_template_from_name", Bytes, c.POINTER(c.c_int), result=c.c_bool)
template_resolve = function("bn_template_resolve", c.c_int, P, result=c.c_int)
template_encode = call("bn_template_encode", c.c_int, P, c.POINTER(MessageStruct), Size, c.POINTER(Ids), Sizes)
template_stop = function("bn_template_stop", c.c_int, Size, result=Bytes)
session_open = call("bn_session_open", Out, P, c.POINTER(SessionOptions))
session_eval = call("bn_session_eval", P, Ids, Size, c.c_int, c.POINTER(c.c_float))
session_embed = call("bn_session_embed", P, Ids, Size, c.POINTER(EmbedOptions), c.POINTER(c.c_float))
session_keep = function("bn_session_keep", P, Ids, Size, result=c.c_uint32)
session_n_ctx = function("bn_session_n_ctx", P, result=c.c_uint32)
session_sequence = function("bn_session_sequence", P, result=P)
grammar_open_gbnf = call("bn_grammar_open_gbnf", Out, Bytes, Size)
grammar_open_json_schema = call("bn_grammar_open_json_schema", Out, Bytes, Size)
query_open = call("bn_query_open", Out, Ids, Size)
query_set = call("bn_query_set", P, c.c_int, c.c_double)
query_add_stop = call("bn_query_add_stop", P, Bytes)
query_add_stop_id = call("bn_query_add_stop_id", P, c.c_int32)
query_set_bias = function("bn_query_set_bias", P, c.POINTER(Candidate), Size)
query_set_grammar = function("bn_query_set_grammar", P, P)
scheduler_open = call("bn_scheduler_open", Out, P, P, c.c_uint32)
scheduler_start = call("bn_scheduler_start", P, P, P, Out)
scheduler_step = call("bn_scheduler_step", P)
scheduler_cancel = function("bn_scheduler_cancel", P, P)
scheduler_take = function("bn_scheduler_take", P, result=P)
generation_ids = function("bn_generation_ids", P, Sizes, result=Ids)
generation_reason = function("bn_generation_reason", P, result=c.c_int)
stop_reason_name = function("bn_stop_reason_name", c.c_int, result=Bytes)
generation_chain = function("bn_generation_chain", P, result=Bytes)
generation_logprobs = function("bn_generation_logprobs", P, result=c.POINTER(c.c_double))


def c_text(text: str) -> bytes:
    """For a function that takes a text up to its NUL."""
    if "\0" in text:
        raise Error(Status.ARG, "a text contains a NUL character")
    return text.encode()


def c_ids(ids: Iterable[int]) -> Any:
    """An array of tokens. ctypes alone would cut integers that are too large."""
    tokens = [operator.index(i) for i in ids]
    if any(not -2**31 <= i < 2**31 for i in tokens):
        raise Error(Status.ARG, "a token is not a 32-bit integer")
    return (c.c_int32 * len(tokens))(*tokens)
