#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learns byte-pair merges in the plainest way, to compare with bn-train: learn_vocabulary.py N FILE...

Written from the definition alone: split the text, count all pairs of neighbours, merge the most frequent one (ties: the
lower pair of ids), count again. Splits as GPT-2 does, for ASCII text. Prints one merge a line, as GGUF spells it.
"""
import re
import sys

SPLIT = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {}, 0
    for byte in range(256):
        if byte in printable:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + extra)
            extra += 1
    return letters


def main():
    words = {}
    for path in sys.argv[2:]:
        with open(path, encoding="ascii", newline="") as file:
            for piece in SPLIT.findall(file.read()):
                key = tuple(piece.encode())
                words[key] = words.get(key, 0) + 1
    letters = alphabet()
    spelled = [letters[b] for b in range(256)]
    for _ in range(int(sys.argv[1])):
        counts = {}
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                counts[pair] = counts.get(pair, 0) + times
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < 2:
            break
        print(spelled[best[0]], spelled[best[1]])
        new = len(spelled)
        spelled.append(spelled[best[0]] + spelled[best[1]])
        merged = {}
        for word, times in words.items():
            out, i = [], 0
            while i < len(word):
                if word[i:i + 2] == best:
                    out.append(new)
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            key = tuple(out)
            merged[key] = merged.get(key, 0) + times
        words = merged


main()
