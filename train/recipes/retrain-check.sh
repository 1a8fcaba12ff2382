#!/usr/bin/env bash
# Repeats the first steps of the built-in model's training and compares them with the record: retrain-check.sh [DIR]
#
# FIRST (20) is their number. DIR (a temporary folder) keeps texts and packages for the next time. It takes some minutes, most of them
# for the texts and the vocabulary.
set -eu
recipes=$(cd "$(dirname "$0")" && pwd)
dir=${1:-}
if [ -z "$dir" ]; then
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
fi
rm -rf "$dir/run"
STEPS='' "$recipes/built-in.sh" "$dir" --until "${FIRST:-20}"
python3 "$recipes/same-start.py" "$recipes/built-in.json" "$dir/run/training.json"
