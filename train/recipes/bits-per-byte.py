#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bits per byte of held-out texts by models, byte models and compressors, with paired bootstraps.

bits-per-byte.py -m MODEL.gguf [-m OLD.gguf] --train FILE [--train FILE] TEXT...

Each -m is scored by bn-run (BN_RUN names the program) in windows of --ctx tokens. The byte models are interpolated as Witten and
Bell do it. The static one learns from the --train files; the adaptive one from the held-out text too, byte by byte.
Compressors pack the end of the training files and the text; the bits that the text adds count.

Differences from the first model are resampled 10,000 times in blocks of 512 bytes; 95 % of their means are in the interval.
"""
import argparse
import bz2
import json
import lzma
import math
import os
import pathlib
import random
import re
import subprocess
import zlib
from collections import Counter, defaultdict

BLOCK = 512


def run_json(program, *arguments):
    return json.loads(subprocess.run([program, *arguments, "--json"], check=True, capture_output=True).stdout)


def model_bits(program, model, path, ctx):
    """Bits of each byte; the bytes of a token share its bits. None for the first token of a window, which has no prediction."""
    source = ("-q", "-m", model, "-f", path)
    tokens = run_json(program, "tokenize", *source)["tokens"]
    scores = iter(run_json(program, "score", *source, "--ctx", str(ctx), "--per-token")["per_token"])
    result = []
    for i, token in enumerate(tokens):
        n = len(re.sub(rb"\\x[0-9A-F]{2}", b"?", token["text"].encode()))
        bits = None
        if i % ctx != 0:
            score = next(scores)
            assert score["id"] == token["id"], (i, score, token)
            bits = -score["logprob"] / math.log(2) / n
        result += n * [bits]
    assert next(scores, None) is None and len(result) == os.path.getsize(path), (model, path)
    return result


class ByteModel:
    """Counts of bytes after each context of up to `order` bytes."""

    def __init__(self, order, text):
        self.order = order
        self.total = [defaultdict(int) for _ in range(order + 1)]
        self.kinds = [defaultdict(int) for _ in range(order + 1)]
        self.count = []
        for k in range(order + 1):
            count = Counter(text[i:i + k + 1] for i in range(len(text) - k))
            for gram, n in count.items():
                self.total[k][gram[:-1]] += n
                self.kinds[k][gram[:-1]] += 1
            self.count.append(count)

    def probability(self, context, byte):
        p = 1 / 256
        for k in range(self.order + 1):
            c = context[len(context) - k:] if k else b""
            kinds = self.kinds[k].get(c, 0)
            if kinds == 0:
                break
            p = (self.count[k].get(c + byte, 0) + kinds * p) / (self.total[k][c] + kinds)
        return p

    def learn(self, context, byte):
        for k in range(min(self.order, len(context)) + 1):
            c = context[len(context) - k:] if k else b""
            gram = c + byte
            self.kinds[k][c] += gram not in self.count[k]
            self.count[k][gram] += 1
            self.total[k][c] += 1

    def bits(self, text, adaptive):
        result = []
        for i in range(len(text)):
            context, byte = text[max(0, i - self.order):i], text[i:i + 1]
            result.append(-math.log2(self.probability(context, byte)))
            if adaptive:
                self.learn(context, byte)
        return result


def packed_bits(pack, before, text):
    return 8 * (len(pack(before + text)) - len(pack(before))) / len(text)


def mean(bits):
    known = [b for b in bits if b is not None]
    return sum(known) / len(known)


def interval(first, other):
    """The 95 % interval of the mean difference (other - first), by bootstrap over blocks of bytes that both predict."""
    pairs = [[b - a for a, b in zip(first[i:i + BLOCK], other[i:i + BLOCK]) if a is not None and b is not None]
             for i in range(0, len(first), BLOCK)]
    sums = [(sum(p), len(p)) for p in pairs]
    chance = random.Random(42)
    means = []
    for _ in range(10000):
        sample = chance.choices(sums, k=len(sums))
        means.append(sum(d for d, _ in sample) / sum(n for _, n in sample))
    means.sort()
    return means[250], means[9749]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", action="append", required=True)
    parser.add_argument("--train", action="append", required=True, help="what the byte models and compressors know")
    parser.add_argument("--ctx", type=int, default=512)
    parser.add_argument("text", nargs="+")
    args = parser.parse_args()
    program = os.environ.get("BN_RUN", "bn-run")
    training = b"".join(pathlib.Path(p).read_bytes() for p in args.train)
    compressors = {"gzip -9": (lambda d: zlib.compress(d, 9), 1 << 16), "bzip2 -9": (lambda d: bz2.compress(d, 9), 1 << 23),
                   "xz -9e": (lambda d: lzma.compress(d, preset=9 | lzma.PRESET_EXTREME), len(training))}
    for path in args.text:
        text = pathlib.Path(path).read_bytes()
        print(f"\n{path}: {len(text)} bytes\n{'bits/byte':>10}  {'minus the first, 95 %':<24}  what")
        rows = [(model, model_bits(program, model, path, args.ctx)) for model in args.model]
        for order in (4, 5):
            for adaptive in (False, True):
                kind = "adaptive" if adaptive else "static"
                rows.append((f"bytes, order {order}, {kind}", ByteModel(order, training).bits(text, adaptive)))
        for what, bits in rows:
            low, high = interval(rows[0][1], bits)
            between = "" if bits is rows[0][1] else f"{low:+.3f} to {high:+.3f}"
            print(f"{mean(bits):10.3f}  {between:<24}  {what}")
        for what, (pack, window) in compressors.items():
            print(f"{packed_bits(pack, training[-window:], text):10.3f}  {'':<24}  {what}, after the training text")


main()
