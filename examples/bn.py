# SPDX-License-Identifier: MIT
"""libbn.so for Python, with the standard library alone. BN_LIBRARY names the library when the system does not find it."""
import ctypes as c
import os

BN_TOKENIZE_BOS = 1
BN_POOLING_MEAN = 2
BN_SET_N_PREDICT, BN_SET_CHAIN = 0, 11
BN_MODEL_N_EMBD = 2

Ids = c.POINTER(c.c_int32)
TokenFunction = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_int32, c.POINTER(c.c_char), c.c_size_t)


class BnError(c.Structure):
    _fields_ = [("code", c.c_int), ("sys_errno", c.c_int), ("offset", c.c_uint64), ("where", c.c_char * 96),
                ("msg", c.c_char * 256), ("hint", c.c_char * 160)]


class EmbedOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("pooling", c.c_int), ("as_is", c.c_bool)]


library = c.CDLL(os.environ.get("BN_LIBRARY", "libbn.so.0"))


def function(name, *arguments, result=None):
    f = getattr(library, name)
    f.argtypes, f.restype = arguments, result
    return f


def call(name, *arguments):
    """A function of the library that returns a status and takes a bn_error last."""

    def checked(*values):
        error = BnError()
        if f(*values, c.byref(error)) != 0:
            raise RuntimeError(": ".join(part.decode() for part in (error.where, error.msg) if part))

    f = function(name, *arguments, c.POINTER(BnError), result=c.c_int)
    return checked


P = c.c_void_p
Out = c.POINTER(P)
model_open = call("bn_model_open", Out, c.c_char_p, P)
session_open = call("bn_session_open", Out, P, P)
tokenize = call("bn_tokenize", P, c.c_char_p, c.c_size_t, c.c_uint, c.POINTER(Ids), c.POINTER(c.c_size_t))
query_open = call("bn_query_open", Out, Ids, c.c_size_t)
query_set = call("bn_query_set", P, c.c_int, c.c_double)
session_generate = call("bn_session_generate", P, P, P, Out)
session_embed = call("bn_session_embed", P, Ids, c.c_size_t, c.POINTER(EmbedOptions), c.POINTER(c.c_float))
model_tokenizer = function("bn_model_tokenizer", P, result=P)
model_get = function("bn_model_get", P, c.c_int, result=c.c_uint64)
query_set_callback = function("bn_query_set_callback", P, TokenFunction, P)
generation_chain = function("bn_generation_chain", P, result=c.c_char_p)
close = {what: function(f"bn_{what}", P)
         for what in ("free", "model_close", "session_close", "query_close", "generation_close")}


class Model:
    """A model with one session; `with Model(path) as model:` releases both."""

    def __init__(self, path):
        self.model, self.session = P(), P()
        model_open(self.model, path.encode(), None)
        session_open(self.session, self.model, None)
        self.tokenizer = model_tokenizer(self.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        close["session_close"](self.session)
        close["model_close"](self.model)

    def tokenize(self, text):
        ids, n = Ids(), c.c_size_t()
        tokenize(self.tokenizer, text.encode(), len(text.encode()), BN_TOKENIZE_BOS, ids, n)
        try:
            return (c.c_int32 * n.value)(*ids[:n.value])
        finally:
            close["free"](ids)

    def generate(self, prompt, n_predict, on_text=lambda text: True):
        """Calls on_text with each piece of text, until it returns False. Returns the chain of digests."""
        ids, query, generation = self.tokenize(prompt), P(), P()
        callback = TokenFunction(lambda _user, _id, piece, n: on_text(piece[:n].decode(errors="replace")))
        try:
            query_open(query, ids, len(ids))
            query_set(query, BN_SET_N_PREDICT, n_predict)
            query_set(query, BN_SET_CHAIN, 1)
            query_set_callback(query, callback, None)
            session_generate(self.session, self.tokenizer, query, generation)
            return generation_chain(generation).decode()
        finally:
            close["generation_close"](generation)
            close["query_close"](query)

    def embed(self, text):
        """The mean of the hidden states, of length 1."""
        ids, vector = self.tokenize(text), (c.c_float * model_get(self.model, BN_MODEL_N_EMBD))()
        session_embed(self.session, ids, len(ids), EmbedOptions(c.sizeof(EmbedOptions), BN_POOLING_MEAN, False), vector)
        return list(vector)
