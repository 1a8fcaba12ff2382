#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Continues a prompt, or verifies its chain of digests: python3 generate.py model.gguf 'ROMEO:' 32 [CHAIN]"""
import sys

import bn


def show(text):
    print(text, end="", flush=True)
    return True  # False stops the generation


if len(sys.argv) not in (4, 5):
    sys.exit(f"usage: {sys.argv[0]} MODEL.gguf PROMPT N [CHAIN]")
with bn.Model(sys.argv[1]) as model:
    chain = model.generate(sys.argv[2], int(sys.argv[3]), show if len(sys.argv) == 4 else None)
if len(sys.argv) == 4:
    print(f"\n[chain: {chain}]")
else:
    print("verified" if chain == sys.argv[4] else "the chain differs")
    sys.exit(chain != sys.argv[4])
