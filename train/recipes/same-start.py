#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the first steps of a training run with those of a recorded run: same-start.py RECORD.json RUN.json

Both files are what bn-train writes as training.json. Settings, digests of the tokens, and the core type of OpenBLAS must be equal;
then every loss and gradient norm of RUN must be the recorded number, to the last bit. Exit status: 0 equal, 1 different, 3 the
runs cannot be compared.
"""
import json
import pathlib
import sys


def differences(record, run):
    for part in ("settings", "corpus"):
        for key in sorted({*record[part], *run[part]}):
            if record[part].get(key) != run[part].get(key):
                yield f"{part}.{key}: {run[part].get(key)}, recorded {record[part].get(key)}"


def main():
    record, run = (json.loads(pathlib.Path(p).read_text()) for p in sys.argv[1:3])
    found = list(differences(record, run))
    cores = [d["library"]["core"] for d in (record, run)]
    if cores[0] != cores[1]:
        found.append(f"core type of OpenBLAS: {cores[1]}, recorded {cores[0]}; other types round differently")
    if found or not run["losses"]:
        print("the runs cannot be compared:", *(found or ["the run has no steps"]), sep="\n  ")
        return 3
    for is_, want in zip(run["losses"], record["losses"]):
        if is_ != want:
            print(f"step {want['step']}: {is_}\n  recorded {want}")
            return 1
    if len(run["losses"]) > len(record["losses"]):
        print(f"the run has {len(run['losses'])} steps, recorded are {len(record['losses'])}")
        return 3
    print(f"{len(run['losses'])} steps: losses and gradient norms are equal to the last bit")
    return 0


sys.exit(main())
