#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recorded results as a reference of bn-crossval:

    bn-crossval logits -m model.gguf --tokens 1,2,3 --ref 'crossval/bridges/dump/bridge.py PATH VOCABULARY'

PATH is a file of `bn-run logits --all -o PATH`, or a folder of `bn-run --trace PATH`, or what another program wrote in these
formats: rows of binary32, one for each token of the prompt. VOCABULARY is the number of columns of the logits. It answers
for the recorded prompt and its beginnings; docs/explain/crossval.md describes the answers.
"""
import json
import os
import re
import sys


class Refused(Exception):
    pass


class Dump:
    def __init__(self, path, n_vocab):
        self.folder = path if os.path.isdir(path) else None
        self.logits = os.path.join(path, "G.logits.f32") if self.folder else path
        self.n_vocab = n_vocab
        self.rows, rest = divmod(os.path.getsize(self.logits), 4 * n_vocab)
        self.prompt = []
        if self.rows == 0 or rest != 0:
            sys.exit(f"{self.logits}: not rows of {n_vocab} binary32 numbers")

    def hello(self, _):
        can = ["logits", "trace"] if self.folder else ["logits"]
        return {"protocol": "bn.reference/1", "name": "dump", "version": "1", "commit": None, "capabilities": can}, b""

    def open(self, _):
        return {"n_vocab": self.n_vocab, "n_ctx": self.rows, "arch": None}, b""

    def close(self, _):
        return {}, b""

    def count(self, request):
        """How many tokens are asked for; they begin the recorded prompt, as far as it is known."""
        tokens = request["tokens"]
        n = min(len(tokens), len(self.prompt))
        if len(tokens) > self.rows or tokens[:n] != self.prompt[:n]:
            raise Refused("the recorded numbers are of one prompt")
        if len(tokens) > len(self.prompt):
            self.prompt = tokens
        return len(tokens)

    def read(self, path, n, cols):
        with open(path, "rb") as file:
            return file.read(4 * n * cols)

    def logits_of(self, request):
        n = self.count(request)
        first = n - 1 if request.get("last") else 0
        data = self.read(self.logits, n, self.n_vocab)[4 * first * self.n_vocab:]
        return {"rows": n - first, "cols": self.n_vocab}, data

    def trace(self, request):
        n, names, records, data = self.count(request), request.get("names"), [], b""
        for name in sorted(os.listdir(self.folder)):
            match = re.fullmatch(r"(?:L(\d{1,5})|G)\.(\w+)\.f32", name)
            if match is None or (names is not None and match[2] not in names):
                continue
            path = os.path.join(self.folder, name)
            cols, rest = divmod(os.path.getsize(path), 4 * self.rows)
            if cols == 0 or rest != 0:
                raise Refused(f"{name}: not {self.rows} rows of binary32 numbers")
            records.append({"op": match[2], "layer": -1 if match[1] is None else int(match[1]), "rows": n, "cols": cols})
            data += self.read(path, n, cols)
        return {"records": records}, data


def main():
    if len(sys.argv) != 3 or not sys.argv[2].isdigit() or int(sys.argv[2]) == 0:
        sys.exit(__doc__)
    try:
        dump = Dump(sys.argv[1], int(sys.argv[2]))
    except OSError as error:
        sys.exit(str(error))
    ops = {"hello": dump.hello, "open": dump.open, "logits": dump.logits_of, "close": dump.close}
    if dump.folder:
        ops["trace"] = dump.trace
    for line in sys.stdin:
        request, data = json.loads(line), b""
        try:
            if request["op"] not in ops:
                raise Refused("this operation is not known")
            answer, data = ops[request["op"]](request)
            answer.update({"ok": True, "floats": len(data) // 4} if data else {"ok": True})
        except Refused as reason:
            answer = {"ok": False, "error": str(reason), "kind": "unsupported"}
        answer["id"] = request["id"]
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + data)
        sys.stdout.buffer.flush()
        if request["op"] == "close":
            break


main()
