#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Continues a prompt, or verifies its chain of digests: python3 generate.py model.gguf 'ROMEO:' 32 [CHAIN]"""
import sys

import bn

if len(sys.argv) not in (4, 5):
    sys.exit(f"usage: {sys.argv[0]} MODEL.gguf PROMPT N [CHAIN]")
with bn.Model(sys.argv[1]) as model:
    if len(sys.argv) == 5:
        same = model.generate(sys.argv[2], max_tokens=int(sys.argv[3])).chain == sys.argv[4]
        print("verified" if same else "the chain differs")
        sys.exit(not same)
    with model.stream(sys.argv[2], max_tokens=int(sys.argv[3])) as stream:
        for text in stream:
            print(text, end="", flush=True)
    print(f"\n[chain: {stream.result.chain}]")
