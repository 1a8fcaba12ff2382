#!/bin/sh
# The version, as engine/bn.h has it: MAJOR.MINOR.PATCH.
sed -nE 's/^#define BN_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' "$(dirname "$0")/../engine/bn.h" | paste -sd . -
