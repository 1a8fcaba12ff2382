#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Continues a prompt: python3 generate.py model.gguf 'ROMEO:' 32"""
import sys

import bn


def show(text):
    print(text, end="", flush=True)
    return True  # False stops the generation


if len(sys.argv) != 4:
    sys.exit(f"usage: {sys.argv[0]} MODEL.gguf PROMPT N")
with bn.Model(sys.argv[1]) as model:
    print(f"\n[chain: {model.generate(sys.argv[2], int(sys.argv[3]), show)}]")
