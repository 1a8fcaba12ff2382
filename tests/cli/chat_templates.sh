#!/usr/bin/env bash
# Prompts of conversations with functions are what the models' chat templates write, and answers under the grammars of functions
# are calls with valid arguments, by other programs. The models' own templates are run too where BN_CHAT_TEMPLATES names a folder
# of them (see chat_templates.py). TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
if ! command -v python3 >/dev/null; then
    skip "conversations with functions" "python3 is not installed"
    exit 0
fi
valid() { python3 tests/cli/chat_answers.py "$@"; }
compare() { python3 tests/cli/chat_templates.py "$@"; }
printf '#!/bin/sh\n"%s" | sed s/tool_response/tool_answer/\n' "$bin/tests/chat/chat" >"$tmp/wrong"
chmod +x "$tmp/wrong"
invalid() { ! valid "$tmp/wrong" >/dev/null 2>"$tmp/err" && grep -q 'is not one of' "$tmp/err"; }
found() { ! compare "$tmp/wrong" >/dev/null 2>"$tmp/err" && grep -q 'differs at' "$tmp/err"; }

check "random conversations have the prompts of the templates" compare "$bin/tests/chat/chat"
check "a wrong tag is found" found
if python3 -c 'import jsonschema' 2>/dev/null; then
    check "random answers are calls with valid arguments" valid "$bin/tests/chat/chat"
    printf '#!/bin/sh\n"%s" | sed %s\n' "$bin/tests/chat/chat" "'s/unit\\\\\":\\\\\"C/unit\\\\\":\\\\\"K/g'" >"$tmp/wrong"
    check "a wrong argument is found" invalid
else
    skip "random answers" "python3-jsonschema is not installed"
fi
if [ -z "${BN_CHAT_TEMPLATES:-}" ]; then
    skip "the models' own templates" "BN_CHAT_TEMPLATES is not set"
elif ! python3 -c 'import jinja2' 2>/dev/null; then
    skip "the models' own templates" "python3-jinja2 is not installed"
else
    check "the models' own templates" compare "$bin/tests/chat/chat" "$BN_CHAT_TEMPLATES"
fi
