#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the cosine of two texts: python3 embed.py model.gguf 'Peace is near.' 'War is over.'"""
import sys

import bn

if len(sys.argv) != 4:
    sys.exit(f"usage: {sys.argv[0]} MODEL.gguf TEXT TEXT")
with bn.Model(sys.argv[1]) as model:
    one, two = model.embed(sys.argv[2:], pooling="mean")
print(f"{sum(a * b for a, b in zip(one, two)):.6f}")
