#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds the temperature at which a trained model predicts held-out texts best: temperature.py CHECKPOINT TEXT...

A model that has read its texts several times is too sure of what comes next. Its logits are divided by temperatures from 1 to 1.3;
the one with the least mean of the texts' losses (nats a token, windows of 512 tokens) is chosen (Guo and others, 2017, arXiv
1706.04599). One number is fitted, so a few thousand tokens are enough.

Prints all losses and the choice as JSON. BN_TRAIN and BN_RUN name the programs.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

WINDOW = "512"


def losses(checkpoint, texts, temperature, model):
    subprocess.run([os.environ.get("BN_TRAIN", "bn-train"), "export", checkpoint, "-o", model, "--temperature", str(temperature)],
                   check=True, stdout=subprocess.DEVNULL)
    scores = (subprocess.run([os.environ.get("BN_RUN", "bn-run"), "score", "-q", "-m", model, "-f", text, "--ctx", WINDOW, "--json"],
                             check=True, capture_output=True).stdout for text in texts)
    return [json.loads(score)["nll_mean"] for score in scores]


def main():
    checkpoint, *texts = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        tries = [{"temperature": t, "losses": losses(checkpoint, texts, t, folder + "/model.gguf")}
                 for t in (round(1 + 0.02 * i, 2) for i in range(16))]
    best = min(tries, key=lambda t: sum(t["losses"]))
    names = [{"path": pathlib.Path(t).name, "sha256": hashlib.sha256(pathlib.Path(t).read_bytes()).hexdigest()} for t in texts]
    print(json.dumps({"texts": names, "tries": tries, "temperature": best["temperature"]}, indent=2))


main()
