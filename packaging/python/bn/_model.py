# SPDX-License-Identifier: MIT
"""Models, and what they generate."""
from __future__ import annotations

import codecs
import ctypes as c
import json
import os
import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, Optional, Sequence, TypedDict, Union

from . import _library as lib
from ._library import Error, Setting, Status

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

BUILT_IN = os.path.join(lib.HERE, "built-in.gguf")


class Message(TypedDict):
    """One message of a chat; the role is "system", "user", "assistant" or "tool"."""

    role: str
    content: str


class Options(TypedDict, total=False):
    """How to generate. The defaults are those of bn-run."""

    max_tokens: int  # 1 to 2^24 [32]
    temperature: float  # 0: always the most likely token [0]
    top_k: int  # sample from the K most likely tokens; 0: all [0]
    top_p: float  # sample from the top tokens of total probability P [1]
    min_p: float  # drop tokens less likely than P times the best one [0]
    repeat_penalty: float  # make the last tokens less likely; 1: off [1]
    repeat_last: int  # how many those are [64]
    presence_penalty: float  # subtract from logits of generated tokens, -2 to 2 [0]
    frequency_penalty: float  # the same, for each time they were generated [0]
    bias: Mapping[int, float]  # what is added to the logits of tokens, -100 to 100
    seed: int  # at most 2^53 [42]
    stop: Union[str, Sequence[str]]  # stop before these texts
    stop_tokens: Sequence[int]  # stop at these tokens
    ignore_end: bool  # continue after end-of-text tokens
    grammar: str  # the text has this form, GBNF
    json_schema: Union[str, Mapping[str, Any]]  # the text is JSON that is valid under this schema
    logprobs: bool  # compute log-probabilities


SETTINGS = {name: Setting[name.upper()] for name in Options.__annotations__ if name.upper() in Setting.__members__}
SETTINGS["max_tokens"] = Setting.N_PREDICT


@dataclass(frozen=True)
class Result:
    """What was generated."""

    text: str  # without the stop text
    tokens: List[int]  # with the token that ended it
    prompt_tokens: List[int]
    chain: str  # digest of all steps, hexadecimal; the same on every machine
    finish_reason: str  # "length", "stop_id", "end", "stop", "context", "cancelled", "grammar", "stuck"
    logprobs: Optional[List[float]] = None  # of each token at temperature 1, if they were asked for


class _Closing:
    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stream(_Closing, Iterator[str]):
    """The pieces of a text as they are generated. At the end `result` has everything. Until then the model is in use: read
    to the end, or close it, which also `with` does; the result then has what there is, with the reason "cancelled"."""

    _held = False  # whether this has the lock of the model

    def __init__(self, model: Model, prompt: Sequence[int], stops: Sequence[str], options: Mapping[str, Any]) -> None:
        self.result: Optional[Result] = None
        self._model, self._prompt, self._text = model, list(lib.c_ids(prompt)), ""
        self._stops, self._rest, self._n = [stop.encode() for stop in stops if stop], b"", 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._scheduler, self._generation, self._query, self._grammar = lib.P(), lib.P(), lib.P(), lib.P()
        model._acquire()
        self._held = True
        try:
            self._start(stops, options)
        except BaseException:
            self._release()
            raise

    def _start(self, stops: Sequence[str], options: Mapping[str, Any]) -> None:
        ids, session = lib.c_ids(self._prompt), self._model._session
        lib.query_open(self._query, ids, len(ids))
        lib.query_set(self._query, Setting.CHAIN, 1)
        for name in SETTINGS.keys() & options.keys():
            if isinstance(value := options[name], int) and abs(value) > 2**53:  # the library takes binary64
                raise Error(Status.ARG, f"{name} cannot be {value}")
            lib.query_set(self._query, SETTINGS[name], float(value))
        for stop in stops:
            lib.query_add_stop(self._query, lib.c_text(stop))
        for token in lib.c_ids(options.get("stop_tokens", ())):
            lib.query_add_stop_id(self._query, token)
        bias = options.get("bias", {})
        self._bias = (lib.Candidate * len(bias))(*map(lib.Candidate, lib.c_ids(bias), bias.values()))
        lib.query_set_bias(self._query, self._bias, len(bias))
        self._constrain(options.get("grammar"), options.get("json_schema"))
        lib.query_set(self._query, Setting.N_CACHED, lib.session_keep(session, ids, len(ids) - 1))
        lib.scheduler_open(self._scheduler, session, self._model._tokenizer, 1)
        lib.scheduler_start(self._scheduler, lib.session_sequence(session), self._query, self._generation)

    def _constrain(self, grammar: Optional[str], schema: Union[str, Mapping[str, Any], None]) -> None:
        if grammar is not None and schema is not None:
            raise Error(Status.ARG, "grammar and json_schema exclude each other")
        if grammar is not None:
            lib.grammar_open_gbnf(self._grammar, text := grammar.encode(), len(text))
        elif schema is not None:
            text = (schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))).encode()
            lib.grammar_open_json_schema(self._grammar, text, len(text))
        lib.query_set_grammar(self._query, self._grammar)

    def __next__(self) -> str:
        while self._held:
            self._model._owner = threading.get_ident()
            try:
                lib.scheduler_step(self._scheduler)
                ended = lib.scheduler_take(self._scheduler) is not None
                text = self._take_text(ended)
                self._text += text
                if ended:
                    self._finish()
            except BaseException:
                self.close()
                raise
            if text:
                return text
        raise StopIteration

    def _take_text(self, ended: bool) -> str:
        """The text of new tokens, without what may become a stop text. A callback of the library would lose KeyboardInterrupt."""
        tokens, tokenizer = self._tokens(), self._model._tokenizer
        for token in tokens[self._n:len(tokens) - (ended and self._reason() in ("stop_id", "end"))]:
            if tokenizer and not lib.token_is_control(tokenizer, token):
                n = lib.token_bytes(tokenizer, token, data := lib.P())
                self._rest += c.string_at(data, n)
        self._n = len(tokens)
        found = [i for i in map(self._rest.find, self._stops) if i >= 0]
        if found or ended:
            shown = min(found, default=len(self._rest))
        else:
            shown = next((i for i in range(len(self._rest)) if any(stop.startswith(self._rest[i:]) for stop in self._stops)),
                         len(self._rest))
        text, self._rest = self._decoder.decode(self._rest[:shown], ended), self._rest[shown:]
        return text

    def _finish(self) -> None:
        """The generation has ended, and was taken from the scheduler."""
        tokens, logprobs = self._tokens(), lib.generation_logprobs(self._generation)
        self.result = Result(self._text, tokens, self._prompt, lib.generation_chain(self._generation).decode(), self._reason(),
                             list(logprobs[:len(tokens)]) if logprobs else None)
        self._release()

    def _tokens(self) -> List[int]:
        ids = lib.generation_ids(self._generation, n := lib.Size())
        return list(ids[:n.value])

    def _reason(self) -> str:
        return str(lib.stop_reason_name(lib.generation_reason(self._generation)).decode())

    def _release(self) -> None:
        for close, handle in ((lib.scheduler_close, self._scheduler), (lib.generation_close, self._generation),
                              (lib.query_close, self._query), (lib.grammar_close, self._grammar)):
            value, handle.value = handle.value, None
            close(value)
        self._held = False
        self._model._let_go()

    def close(self) -> None:
        """Ends the generation, and the use of the model."""
        if self._held and os.getpid() == self._model._pid:
            lib.scheduler_cancel(self._scheduler, self._generation)
            lib.scheduler_take(self._scheduler)
            self._finish()

    def __del__(self) -> None:
        self.close()


def _close(pid: int, session: Any, model: Any) -> None:
    if os.getpid() == pid:  # the threads of a session do not live on in a child
        lib.session_close(session)
        lib.model_close(model)


class Model(_Closing):
    """A model and one session of it: Model("model.gguf"), or Model() for the built-in model. `with` closes it.

    n_ctx: most tokens of a prompt with its answer [the model's, at most 4096]; threads: [one per core]; device: "cpu",
    "opencl", "opencl:N", "auto". What a prompt has in common with the last one is not evaluated again."""

    def __init__(self, path: Union[str, os.PathLike[str], None] = None, *, n_ctx: int = 0, threads: int = 0,
                 device: Optional[str] = None) -> None:
        self._model, self._session, self._pid = lib.P(), lib.P(), os.getpid()
        self._lock, self._owner = threading.Lock(), 0
        self._finalizer = weakref.finalize(self, _close, self._pid, self._session, self._model)
        self._finalizer.atexit = False
        if path is None and not os.path.exists(BUILT_IN):
            raise Error(Status.NOT_FOUND, "this copy of the package has no built-in model", hint="name a file: bn.Model(PATH)")
        if not (0 <= n_ctx < 2**32 and 0 <= threads < 2**32):
            raise Error(Status.ARG, "n_ctx or threads is out of range")
        options = lib.ModelOptions(size=c.sizeof(lib.ModelOptions), repack=lib.Repack.AUTO, device=device and lib.c_text(device))
        lib.model_open(self._model, os.fsencode(BUILT_IN if path is None else path), options)
        lib.session_open(self._session, self._model,
                         lib.SessionOptions(size=c.sizeof(lib.SessionOptions), n_ctx=n_ctx, n_threads=threads))
        self._tokenizer = lib.P(lib.model_tokenizer(self._model))
        self.arch: str = lib.model_arch(self._model).decode()
        self.n_vocab, self.n_embd, self.n_layer = (
            int(lib.model_get(self._model, i)) for i in (lib.Figure.N_VOCAB, lib.Figure.N_EMBD, lib.Figure.N_LAYER))
        self.n_ctx: int = lib.session_n_ctx(self._session)
        self.eos: int = lib.tokenizer_eos(self._tokenizer) if self._tokenizer else -1  # -1: the vocabulary has none

    def _acquire(self) -> None:
        if os.getpid() != self._pid:
            raise Error(Status.ARG, "the model was opened before os.fork", hint="open it in this process")
        if self._lock.locked() and self._owner == threading.get_ident():
            raise Error(Status.ARG, "this thread is reading a stream of the model", hint="read it to the end, or close it")
        self._lock.acquire()
        self._owner = threading.get_ident()
        if not self._finalizer.alive:
            self._let_go()
            raise Error(Status.ARG, "the model is closed")

    def _let_go(self) -> None:
        self._owner = 0
        self._lock.release()

    @contextmanager
    def _use(self, text: bool = False) -> Iterator[None]:
        self._acquire()
        try:
            if text and not self._tokenizer:
                raise Error(Status.UNSUPPORTED, "the model's file has no vocabulary")
            yield
        finally:
            self._let_go()

    def close(self) -> None:
        """Releases the memory. Waits for other threads."""
        if self._finalizer.alive:
            with self._use():
                self._finalizer()

    def tokenize(self, text: str, *, bos: bool = True, special: bool = False) -> List[int]:
        """The tokens of a text. bos: with begin-of-sequence where the model's file asks for it. special: text that spells a
        control token becomes that token."""
        data, ids, n = text.encode(), lib.Ids(), lib.Size()
        with self._use(text=True):
            lib.tokenize(self._tokenizer, data, len(data), lib.Tokenize.BOS * bos | lib.Tokenize.SPECIAL * special, ids, n)
        return _take(ids, n)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens. special: control tokens have a text too."""
        ids, text, n = lib.c_ids(tokens), lib.P(), lib.Size()
        with self._use(text=True):
            lib.detokenize(self._tokenizer, ids, len(ids), special, text, n)
        try:
            return c.string_at(text, n.value).decode(errors="replace")
        finally:
            lib.free(text)

    def stream(self, prompt: Union[str, Sequence[int]], **options: Unpack[Options]) -> Stream:
        """Continues a text, or tokens, piece by piece."""
        return self._start(self.tokenize(prompt) if isinstance(prompt, str) else prompt, (), options)

    def generate(self, prompt: Union[str, Sequence[int]], **options: Unpack[Options]) -> Result:
        """Continues a text, or tokens."""
        return _all(self.stream(prompt, **options))

    def stream_chat(self, messages: Sequence[Message], *, template: str = "auto", **options: Unpack[Options]) -> Stream:
        """Answers the last message, piece by piece. template: a name that `bn-run --template` has."""
        form, ids, n = c.c_int(), lib.Ids(), lib.Size()
        if not lib.template_from_name(lib.c_text(template), form):
            raise Error(Status.ARG, f"there is no chat template '{template}'")
        array = (lib.MessageStruct * len(messages))(
            *(lib.MessageStruct(lib.c_text(m["role"]), lib.c_text(m["content"])) for m in messages))
        with self._use(text=True):
            resolved = lib.template_resolve(form, self._tokenizer)
            lib.template_encode(resolved, self._tokenizer, array, len(array), ids, n)
        stops: List[str] = []
        while (stop := lib.template_stop(resolved, len(stops))) is not None:
            stops.append(stop.decode())
        return self._start(_take(ids, n), stops, options)

    def chat(self, messages: Sequence[Message], *, template: str = "auto", **options: Unpack[Options]) -> Result:
        """Answers the last message. The answer ends where the template says, at max_tokens [32], or at a stop."""
        return _all(self.stream_chat(messages, template=template, **options))

    def _start(self, prompt: Sequence[int], stops: Sequence[str], options: Mapping[str, Any]) -> Stream:
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            raise TypeError(f"unknown option '{min(unknown)}'; bn.Options lists those that there are")
        given = options.get("stop", ())
        return Stream(self, prompt, [*([given] if isinstance(given, str) else given), *stops], options)

    def embed(self, texts: Union[str, Sequence[str]], *, pooling: str = "file", normalize: bool = True) -> List[List[float]]:
        """A vector for each text. pooling: "mean", "first", "last", or "file", as the model's file says; files of models that
        chat mostly say nothing, and then it is an error."""
        if pooling not in ("file", "mean", "first", "last"):
            raise Error(Status.ARG, f"there is no pooling '{pooling}'", hint="file, mean, first or last")
        options = lib.EmbedOptions(c.sizeof(lib.EmbedOptions), lib.Pooling[pooling.upper()], not normalize)
        vectors = []
        for text in [texts] if isinstance(texts, str) else texts:
            ids, vector = lib.c_ids(self.tokenize(text)), (c.c_float * self.n_embd)()
            with self._use():
                lib.session_embed(self._session, ids, len(ids), options, vector)
            vectors.append(list(vector))
        return vectors

    def logits(self, tokens: Sequence[int], *, every: bool = False) -> memoryview:
        """The logits after the last token: n_vocab floats. every: after each token, of shape (len(tokens), n_vocab).
        numpy.asarray takes the result without a copy; .tolist() makes lists."""
        ids = lib.c_ids(tokens)
        shape = [len(ids), self.n_vocab] if every else [self.n_vocab]
        out = (c.c_float * ((len(ids) if every else 1) * self.n_vocab))()
        with self._use():
            kept = lib.session_keep(self._session, ids, 0 if every or not ids else len(ids) - 1)
            rest = lib.c_ids(ids[kept:])
            lib.session_eval(self._session, rest, len(rest), lib.Logits.ALL if every else lib.Logits.LAST, out)
        return memoryview(out).cast("B").cast("f", shape)


def _take(ids: Any, n: Any) -> List[int]:
    """The list of an array that the library allocated, and which is freed."""
    try:
        return list(ids[:n.value])
    finally:
        lib.free(ids)


def _all(stream: Stream) -> Result:
    for _ in stream:
        pass
    assert stream.result is not None
    return stream.result
