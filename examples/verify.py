#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Repeats a generation and compares its chain: python3 verify.py model.gguf 'ROMEO:' 32 CHAIN"""
import sys

import bn

if len(sys.argv) != 5:
    sys.exit(f"usage: {sys.argv[0]} MODEL.gguf PROMPT N CHAIN")
with bn.Model(sys.argv[1]) as model:
    same = model.generate(sys.argv[2], int(sys.argv[3])) == sys.argv[4]
print("verified" if same else "the chain differs")
sys.exit(not same)
