#!/usr/bin/env bash
# The Python package with the library of this build: its tests, its types, and its declarations next to those of bn.h. The wheel
# is made and installed by tests/release/wheel.sh. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
if sanitized address thread undefined cover; then
    skip "the Python package" "Python loads no library with sanitizers"
    exit
fi
bin=$(cd "${OUT:-build/gcc}" && pwd)
python=/usr/bin/python3 # Debian's, which has the packages of Debian
[ -x "$python" ] || python=python3
export PYTHONPATH=packaging/python PYTHONDONTWRITEBYTECODE=1 BN_LIBRARY=$bin/libbn.so PATH=$bin:$PATH
unset BN_MODEL BN_ISA BN_DEVICE
if "$python" -c 'import pytest' 2>/dev/null; then
    "$python" packaging/python/tests/cases.py "$bin/bn-run" fixtures/built-in-i2_s.gguf >"$tmp/expected.json"
    tests() { BN_EXPECTED=$tmp/expected.json "$python" -m pytest -q -p no:cacheprovider "$@" packaging/python/tests; }
    says 0 "the tests of the package pass, none is skipped" '^[0-9]+ passed in' tests
    sed -E 's/"ids": \[([0-9]+), [0-9]+/"ids": [\1, 1/' "$tmp/expected.json" >"$tmp/other" && mv "$tmp/other" "$tmp/expected.json"
    says 1 "another token than that of bn-run is found" 'FAILED.*tokens_are_those_of_bn_run' tests -k bn_run
    for change in 's/BN_SET_TOP_K,/BN_SET_NEW, &/' 's/bool no_mmap; .*/uint32_t no_mmap;/' 's/uint32_t n_ctx,$/uint64_t n_ctx,/;s/bn_model_get(const bn_model \*model, /&int new, /'; do
        sed "$change" engine/bn.h >"$tmp/bn.h"
        says 1 "a header with another declaration is found: $change" '[1-9] failed' env BN_HEADER="$tmp/bn.h" "$python" -m pytest -q \
            -p no:cacheprovider packaging/python/tests/test_library.py
    done
else
    skip "the tests of the package" "no python3-pytest"
fi

# ---- types: of the package, and what they say of a program ----
if command -v mypy >/dev/null; then
    types() { MYPYPATH=packaging/python mypy --strict --enable-incomplete-feature=Unpack --cache-dir "$tmp/mypy" "$@"; }
    says 0 "the package is fully typed" '^Success' types packaging/python/bn
    program() { printf 'import bn\nwith bn.Model() as m:\n    %s\n' "$1" >"$tmp/program.py" && types "$tmp/program.py"; }
    says 0 "a right program is accepted" '^Success' program 't: str = m.generate("a", max_tokens=1, stop=["b"]).text'
    says 1 "a wrong option is found" 'max_token' program 'm.generate("a", max_token=1)'
    says 1 "so is a wrong type" 'expected "int"' program 'm.generate("a", max_tokens="1")'
    says 1 "and a wrong result" 'expression has type "str"' program 'n: int = m.chat([{"role": "user", "content": "a"}]).text'
else
    skip "the package is fully typed" "no mypy"
fi
