# SPDX-License-Identifier: MIT
"""Writes a copy of a GGUF model with another vocabulary: python3 edit_vocabulary.py IN OUT PRE TEMPLATE ID=TEXT...

PRE is the splitting rule, TEMPLATE the text of tokenizer.chat_template. TEXT becomes the text of token ID: a control token when
it is <|...|>, else a user-defined one. Merges that name or make the old token are left out. The weights stay.
"""
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def string(self):
        return self.take(self.u64())

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            kind, n = self.u32(), self.u64()
            return (kind, [self.value(kind) for _ in range(n)])
        return self.take(SIZES[kind])


def string(text):
    return struct.pack("<Q", len(text)) + text


def value(kind, what):
    if kind == 8:
        return string(what)
    if kind == 9:
        return struct.pack("<IQ", what[0], len(what[1])) + b"".join(value(what[0], v) for v in what[1])
    return what


source, target, pre, template = sys.argv[1:5]
r = Reader(open(source, "rb").read())
magic, n_tensors, n_keys = r.take(8), r.u64(), r.u64()
keys = {}
for _ in range(n_keys):
    name = r.string()
    kind = r.u32()
    keys[name] = (kind, r.value(kind))
start = r.at
for _ in range(n_tensors):
    r.string()
    r.take(8 * r.u32() + 4 + 8)
infos = r.data[start : r.at]
align = struct.unpack("<I", keys[b"general.alignment"][1])[0] if b"general.alignment" in keys else 32
weights = r.data[-(-r.at // align) * align :]

tokens, types = keys[b"tokenizer.ggml.tokens"][1][1], keys[b"tokenizer.ggml.token_type"][1][1]
gone = set()
for edit in sys.argv[5:]:
    number, text = edit.split("=", 1)
    gone.add(tokens[int(number)])
    tokens[int(number)] = text.encode()
    types[int(number)] = struct.pack("<i", 3 if text.startswith("<|") else 4)
merges = [m for m in keys[b"tokenizer.ggml.merges"][1][1] if not gone & {*m.split(b" "), m.replace(b" ", b"", 1)}]
keys[b"tokenizer.ggml.merges"] = (9, (8, merges))
keys[b"tokenizer.ggml.pre"] = (8, pre.encode())
keys.pop(b"tokenizer.ggml.add_bos_token", None)
keys[b"tokenizer.chat_template"] = (8, template.encode())

head = magic + struct.pack("<QQ", n_tensors, len(keys))
head += b"".join(string(k) + struct.pack("<I", kind) + value(kind, v) for k, (kind, v) in keys.items()) + infos
open(target, "wb").write(head + b"\0" * (-len(head) % align) + weights)
