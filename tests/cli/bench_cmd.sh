#!/usr/bin/env bash
# bn-bench cmd: one command of one's own as a test: what is read from it, its baseline, and a planted slower number that
# baseline check, compare, trend and report show. The command prints known numbers. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bench=$(cd "${OUT:-build/gcc}" && pwd)/bn-bench
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset BN_LEDGER
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
    GIT_COMMITTER_EMAIL=a@b
# A project of someone else, in a repository of its own.
mkdir "$tmp/project"
cd "$tmp/project" || exit 1
git init -q -b main .
# mine.sh: its cost is LEVEL, from a file, with a little noise that is the same each time.
cat >mine.sh <<'SH'
n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n
level=$(cat level)
echo "warming: cost 1"
echo "cost $((level * 1000 + n * 37 % 11)) rate $((100000 / level))"
SH
printf 'n\nlevel\nbaselines\n*.json\n' >.gitignore
git add . && git commit -q -m one
echo 100 >level
cmd() { "$bench" cmd -q "$@"; }
# quiet FILE: as if nothing else had run on the machine
quiet() { sed -Ei 's/"(used_cpus|stolen_cpus)": [0-9.e+-]+/"\1": 0/' "$1"; }
measure() { # FILE
    rm -f n
    cmd -r 12 --name mine --output-only --extract 'cost=cost ([0-9]+)' --extract 'speed=rate ([0-9]+):higher' --json -- sh mine.sh >"$1"
    quiet "$1"
}

says 0 'a command: its times and its memory' '^sleep +wall_ns +' cmd -r 3 -- sleep 0.01
says 0 'CPU time' '^sleep +cpu_ns ' cmd -r 3 -- sleep 0.01
says 0 'memory' '^sleep +max_rss_bytes ' cmd -r 3 -- sleep 0.01
measure first.json
check 'the document has every number, without the warm-up' python3 - first.json <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
s = {x["metric"]: x for x in d["series"]}
assert d["schema"] == "bn.bench/1" and d["command"] == "cmd" and d["settings"]["command"] == ["sh", "mine.sh"], d
assert s["cost"]["samples"] == [100000 + n * 37 % 11 for n in range(1, 13)], s["cost"]
assert s["cost"]["better"] == "lower" and s["speed"]["better"] == "higher", s
assert sorted(s) == ["cost", "speed"], s
assert {x["test"] for x in d["series"]} == {"mine"}, s
PY
says 0 'only the numbers of the output' '^1 series measured' cmd -r 2 --output-only --extract 'cost=cost ([0-9]+)' -- sh mine.sh
says 0 'through the shell' '^echo 4; true +x +4 ' cmd -r 2 --shell --extract 'x=([0-9]+)' -- 'echo 4; true'
printf '{"schema":"bn.bench/1","series":[{"test":"t","metric":"m","unit":"ns","better":"lower","exact":false,"warmup":0,"samples":[3,9,4]}]}' >printed
says 0 'medians of series that it prints' '^t +m +4' cmd -r 2 --series -- cat printed

# ---- baselines ----
says 0 'the run of a commit is saved' '^[0-9a-f]{12}  mine  promoted' "$bench" baseline save mine first.json
measure second.json
says 0 'the same numbers pass' '^mine +cost .*STABLE' "$bench" baseline check -v --baseline mine second.json
status 0 'and are saved' "$bench" baseline save mine second.json
again() { for _ in 1 2 3 4 5; do measure again.json && "$bench" baseline save mine again.json >/dev/null 2>&1; done; }
again
echo 130 >level
measure slow.json
says 1 'a planted slower number fails' '^mine +cost +100.* 130.*\+30\.0 % +REGRESSED \(critical\)' "$bench" baseline check -v --baseline mine slow.json
says 1 'so does a rate that fell' '^mine +speed .* -23\.1 % +REGRESSED' "$bench" baseline check -v --baseline mine slow.json
says 1 'compare shows it' '^mine +cost .*REGRESSED' "$bench" compare -v first.json slow.json
status 1 'it is saved as a regression' "$bench" baseline save mine slow.json
again
says 0 'trend shows since when' 'cost .*\+30\.0 % at ' "$bench" trend --suite cmd --metric cost
says 0 'report shows it' '^mine +cost +130' "$bench" report slow.json
"$bench" compare -v --json first.json slow.json >both.json
says 0 'and the comparison' 'cost .*REGRESSED' "$bench" report both.json
git commit -q --allow-empty -m two
says 1 'a run of another commit is refused' 'not saved: the program is of commit [0-9a-f]{12}, and [0-9a-f]{12} is checked out' \
    "$bench" baseline save mine slow.json

# ---- failures ----
says 1 'a command that fails' 'the command failed with status 3 \(round 1\): went wrong' \
    cmd -r 2 -- sh -c 'echo went wrong >&2; exit 3'
says 1 'a number that is not there' '\-\-extract: the command printed no match for' cmd -r 2 --extract 'x=y ([0-9]+)' -- echo x 1
says 1 'a run that takes too long' 'the command exceeded --timeout 1 s' cmd -r 2 --timeout 1 -- sleep 30
says 3 'a program that is not there' 'nothing-like-it' cmd -- nothing-like-it
says 2 'no command' 'missing|expected' cmd -r 2
says 2 'a pattern without a group' 'no \(group\)' cmd --extract 'x=y' -- true
says 4 'output without a document' 'not a bn-bench document' cmd -r 2 --series -- echo hello
