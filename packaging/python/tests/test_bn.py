# SPDX-License-Identifier: MIT
"""The package, by its public names. BN_FIXTURES is the folder of fixtures; BN_EXPECTED what cases.py wrote."""
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import bn
import pytest
from cases import CASES

FIXTURES = pathlib.Path(os.environ.get("BN_FIXTURES") or pathlib.Path(__file__).parents[3] / "fixtures")
MODEL = FIXTURES / "built-in-i2_s.gguf"
RECEIPTS = FIXTURES / "receipts"
OTHER = FIXTURES / "shakespeare-5m-i2_s.gguf"
EXPECTED = json.loads(pathlib.Path(os.environ["BN_EXPECTED"]).read_text()) if "BN_EXPECTED" in os.environ else None


@pytest.fixture(scope="module")
def model():
    with bn.Model(MODEL) as opened:
        yield opened


def fails(status, part, f, *arguments, **options):
    with pytest.raises(bn.Error) as caught:
        f(*arguments, **options)
    assert caught.value.status == status and part in str(caught.value)


@pytest.mark.skipif(EXPECTED is None, reason="no BN_EXPECTED")
@pytest.mark.parametrize("i", range(len(CASES)))
def test_the_tokens_are_those_of_bn_run(model, i):
    _, method, asked, options = CASES[i]
    want = EXPECTED[i]
    for _ in range(2):  # the second one reuses the prompt
        got = getattr(model, method)(asked, **options)
        assert (got.tokens, got.text, got.prompt_tokens) == (want["ids"], want["text"], want["prompt_ids"])
        assert (got.chain, got.finish_reason) == (want["chain"], want["stop"])
    stream = getattr(model, {"generate": "stream", "chat": "stream_chat"}[method])(asked, **options)
    assert "".join(stream) == want["text"] and stream.result == got


def test_a_stream_is_read_piece_by_piece(model):
    with model.stream("The LORD", max_tokens=64) as stream:
        assert next(stream) and stream.result is None
        fails(bn.Status.ARG, "stream", model.tokenize, "a")
        fails(bn.Status.ARG, "stream", model.close)
    assert stream.result.finish_reason == "cancelled" and 1 <= len(stream.result.tokens) < 64
    assert list(stream) == []
    stream.close()
    model.stream("The LORD")  # forgotten: it does not keep the model
    assert len(model.generate("The LORD", max_tokens=3).tokens) == 3


def test_logprobs(model):
    result = model.generate("The LORD", max_tokens=4, logprobs=True)
    row = model.logits(result.prompt_tokens).tolist()
    total = math.log(sum(math.exp(x - max(row)) for x in row)) + max(row)
    assert result.logprobs[0] == pytest.approx(row[result.tokens[0]] - total, abs=1e-5)
    assert model.generate("The LORD", max_tokens=4).logprobs is None


def test_logits_are_floats_in_a_memoryview(model):
    tokens = model.tokenize("The LORD hath")
    every, last = model.logits(tokens, every=True), model.logits(tokens)
    assert every.shape == (len(tokens), model.n_vocab) and last.shape == (model.n_vocab,) and last.format == "f"
    assert every.tolist()[-1] == last.tolist()
    assert max(range(model.n_vocab), key=last.__getitem__) == model.generate(tokens, max_tokens=1).tokens[0]
    fails(bn.Status.ARG, "", model.logits, [model.n_vocab])
    fails(bn.Status.ARG, "32-bit", model.logits, [2**32])
    with pytest.raises(TypeError):
        model.logits([1.5])


def test_text_and_tokens(model):
    for text in ("", "The LORD", "naïve 世界 🌍", "a\0b"):
        assert model.detokenize(model.tokenize(text, bos=False)) == text
    fails(bn.Status.ARG, "", model.detokenize, [-1])


def test_embeddings(model):
    one, two = model.embed(["Peace.", "War."], pooling="mean")
    assert len(one) == model.n_embd and math.hypot(*one) == pytest.approx(1, abs=1e-5) and one != two
    assert model.embed("Peace.", pooling="mean") == [one]
    assert math.hypot(*model.embed("Peace.", pooling="last", normalize=False)[0]) > 2
    fails(bn.Status.UNSUPPORTED, "pooling", model.embed, "Peace.")
    fails(bn.Status.ARG, "pooling", model.embed, "Peace.", pooling="sum")


def test_errors(model, tmp_path):
    fails(bn.Status.NOT_FOUND, "none.gguf", bn.Model, "none.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(60))
    fails(bn.Status.FORMAT, "bad.gguf", bn.Model, tmp_path / "bad.gguf")
    fails(bn.Status.ARG, "", model.generate, "a", max_tokens=0)
    fails(bn.Status.ARG, "exclude", model.generate, "a", grammar="root ::= \"a\"", json_schema={})
    fails(bn.Status.FORMAT, "", model.generate, "a", grammar="root ::= none")
    fails(bn.Status.UNSUPPORTED, "", model.generate, "a", json_schema={"not": {}})
    fails(bn.Status.ARG, "NUL", model.generate, "a", stop="\0")
    fails(bn.Status.ARG, "seed", model.generate, "a", seed=2**53 + 1)
    fails(bn.Status.ARG, "max_tokens", model.generate, "a", max_tokens=10**400)
    assert model.generate("The LORD", max_tokens=4, stop=["", "zzz"]).text == model.generate("The LORD", max_tokens=4).text
    fails(bn.Status.LIMIT, "", model.generate, [1] * (model.n_ctx + 1))
    fails(bn.Status.ARG, "template", model.chat, [{"role": "user", "content": "a"}], template="none")
    fails(bn.Status.ARG, "", model.chat, [])
    fails(bn.Status.ARG, "", model.chat, [{"role": "nobody", "content": "a"}])
    with pytest.raises(TypeError, match="max_token"):
        model.generate("a", max_token=1)
    assert len(model.generate("a", max_tokens=1).tokens) == 1


def test_a_closed_model(model):
    own = bn.Model(MODEL, n_ctx=32, threads=1)
    assert own.n_ctx == 32
    own.close()
    own.close()
    fails(bn.Status.ARG, "closed", own.generate, "a")


def test_the_built_in_model():
    if os.path.exists(os.path.join(os.path.dirname(bn.__file__), "built-in.gguf")):
        with bn.Model() as built_in, bn.Model(MODEL) as named:
            assert built_in.generate("The LORD") == named.generate("The LORD")
    else:
        fails(bn.Status.NOT_FOUND, "built-in", bn.Model)


def test_threads_take_turns(model):
    want, got = model.generate("The LORD", max_tokens=8), []
    threads = [threading.Thread(target=lambda: got.append(model.generate("The LORD", max_tokens=8))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want] * 6


def test_a_child_opens_its_own_model(model):
    child = os.fork()
    if child == 0:
        try:
            model.generate("a")
        except bn.Error as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(3)
    assert os.waitpid(child, 0)[1] == 0


def test_it_can_be_interrupted(model):
    def raise_signal():
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=raise_signal).start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            model.generate("The LORD", max_tokens=200, ignore_end=True)
    assert len(model.generate("The LORD", max_tokens=3).tokens) == 3


def test_it_prints_nothing():
    code = f"import bn; bn.Model({str(MODEL)!r}).generate('The LORD', max_tokens=2)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, check=True)
    assert done.stdout + done.stderr == b""


@pytest.mark.parametrize("library", ["/nowhere/libbn.so", "libc.so.6"])
def test_a_library_that_cannot_be_loaded(library):
    done = subprocess.run([sys.executable, "-c", "import bn"], capture_output=True, text=True, env={**os.environ, "BN_LIBRARY": library})
    assert done.returncode == 1 and "ImportError: bn: the library cannot be loaded" in done.stderr


def test_receipts(tmp_path):
    good = RECEIPTS / "statement.json"
    checked = bn.verify(good, models=[OTHER], replay=True, isa="ref", threads=1)
    assert checked and checked.verified and checked.level == "replay" and checked.exit_code == 0 and not checked.failed
    document = json.loads(good.read_text())
    document["predicate"]["tokens_generated"] += 1
    (tmp_path / "forged.json").write_text(json.dumps(document))
    forged = bn.verify(tmp_path / "forged.json", models=[OTHER])
    assert not forged and not forged.verified and forged.exit_code != 0 and "self-digest" in forged.failed
    signed = RECEIPTS / "envelope.json"
    assert bn.verify(signed, public_keys=[RECEIPTS / "test-key.pub"])
    unsigned = bn.verify(good, public_keys=[RECEIPTS / "test-key.pub"])
    assert not unsigned and "signature" in unsigned.failed
    fails(bn.Status.NOT_FOUND, "none.json", bn.verify, tmp_path / "none.json")
    fails(bn.Status.ARG, "max-age", bn.verify, good, max_age="long")
    (tmp_path / "text.json").write_text("text")
    fails(bn.Status.FORMAT, "", bn.verify, tmp_path / "text.json")


def test_no_program_is_an_error(monkeypatch):
    if os.access(os.path.join(os.path.dirname(bn.__file__), "bn-verify-receipt"), os.X_OK):
        pytest.skip("the package has the program")
    monkeypatch.setenv("PATH", "/nowhere")
    fails(bn.Status.NOT_FOUND, "bn-verify-receipt", bn.verify, RECEIPTS / "statement.json")
