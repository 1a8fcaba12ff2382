#!/usr/bin/env bash
# The workflows of CI: read by a YAML parser, every step is a command that exists, and the commands do what they promise, in a
# scratch repository. The gate of bn-bench is tested in bench_ledger.sh. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
top=$PWD
bin=$(cd "${OUT:-build/gcc}" && pwd)

# ---- the files ----
cat >"$tmp/workflows.py" <<'END'
import glob, os, re, subprocess, sys, yaml

def fail(text):
    print(text)
    sys.exit(1)

def steps(workflow):
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            yield name, job, step

files = {os.path.basename(f): yaml.safe_load(open(f)) for f in sys.argv[2:]}
targets = set(re.findall(r"^([a-z][a-z-]*):", open("Makefile").read(), re.M))
setup = ("apt-get update && apt-get install ", "git config --global --add safe.directory ")
for file, workflow in files.items():
    for name, job, step in steps(workflow):
        at = f"{file}: {name}: {step}"
        if sys.argv[1] == "commands" and "run" in step:
            command = step["run"]
            if command.startswith(setup):
                continue
            words = command.split()
            if words[0] == "make":
                wanted = job["strategy"]["matrix"]["target"] if "${{" in command else [w for w in words[1:] if w[0] != "-"]
                if set(wanted) - targets:
                    fail(f"{at}: the Makefile has no such target")
            elif not (words[0].startswith("ci/") and os.access(words[0], os.X_OK)):
                fail(f"{at}: not a make target, not a script of ci/")
        if sys.argv[1] == "artefacts" and "upload-artifact" in step.get("uses", ""):
            if step["with"]["retention-days"] != 90 or step.get("if") != "always()":
                fail(f"{at}: artefacts are kept 90 days, those of failed jobs too")
        if sys.argv[1] == "time" and not job.get("timeout-minutes"):
            fail(f"{at}: no time limit")
if sys.argv[1] == "names":
    on = {f: w[True] for f, w in files.items()}  # "on" is a truth value in YAML
    assert set(files) == {"benchmark.yml", "check.yml", "flamegraph.yml"}, files.keys()
    assert "schedule" in on["benchmark.yml"] and "schedule" in on["flamegraph.yml"]
    assert {"base", "platform_filter", "update_baselines"} <= set(on["benchmark.yml"]["workflow_dispatch"]["inputs"])
    assert any("arm" in r for r in files["check.yml"]["jobs"]["check"]["strategy"]["matrix"]["runner"])
if sys.argv[1] == "uploads":
    print(sum("upload-artifact" in step.get("uses", "") for w in files.values() for _, _, step in steps(w)))
END
workflows() { python3 "$tmp/workflows.py" "$@"; }
if python3 -c 'import yaml' 2>/dev/null; then
    check 'the workflows are YAML, with their triggers and inputs' workflows names .github/workflows/*.yml
    check 'every step is a target of make or a script of ci/' workflows commands .github/workflows/*.yml
    check 'every job has a time limit' workflows time .github/workflows/*.yml
    check 'artefacts are kept for 90 days' workflows artefacts .github/workflows/*.yml
    check 'and there are some for each job that measures' equal "$(workflows uploads .github/workflows/*.yml)" 3
    sed 's,ci/bench-ci.sh,ci/bench-cl.sh,' .github/workflows/benchmark.yml >"$tmp/wrong.yml"
    says 1 'a step that names no script is found' 'not a script of ci/' workflows commands "$tmp/wrong.yml"
    sed 's,run: make -j2,run: make -j2 everything,' .github/workflows/benchmark.yml >"$tmp/wrong.yml"
    says 1 'so is one that names no target' 'no such target' workflows commands "$tmp/wrong.yml"
    sed 's,retention-days: 90,retention-days: 9,' .github/workflows/benchmark.yml >"$tmp/wrong.yml"
    says 1 'and artefacts that are kept shorter' '90 days' workflows artefacts "$tmp/wrong.yml"
else
    skip 'the workflows are YAML' 'no python3-yaml'
fi

# ---- the receipt ----
mkdir -p "$tmp/receipt/ci" && cd "$tmp/receipt" || exit 1
cp "$top"/ci/{receipt.sh,receipt-policy.json} ci/
says 0 'the receipt is written, checked and replayed' 'level: replay' env OUT="$bin" ci/receipt.sh
check 'it stays as an artefact' "$bin/bn-verify-receipt" -q ci/inference.json
sed -i 's/"require_quantized_kernels"/"require_gpu_kernels": true, &/' ci/receipt-policy.json
says 1 'a policy that it does not meet fails the job' 'gpu-kernels' env OUT="$bin" ci/receipt.sh

# ---- the issue, with a gh that only records what it is asked ----
mkdir -p "$tmp/bin" "$tmp/issue" && cd "$tmp/issue" || exit 1
cat >"$tmp/bin/gh" <<'END'
#!/bin/sh
echo "$*" >>asked
case $2 in list) cat open ;; create | comment) for file; do :; done && cat "$file" >text ;; esac
END
chmod +x "$tmp/bin/gh"
open_issue() { PATH=$tmp/bin:$PATH "$top/ci/open-issue.sh" "$@"; }
: >open
says 0 'without a file there is no issue' 'nothing to report' open_issue none.md
check 'and nobody is asked' test ! -e asked
printf 'performance: slower\n\nby 30 %%\n' >issue.md
status 0 'a file becomes an issue' open_issue issue.md
check 'with its first line as title' grep -q '^issue create --title performance: slower' asked
check 'and the rest as text' equal "$(cat text)" "$(printf '\nby 30 %%')"
echo 17 >open && : >asked
status 0 'an issue of that title that is open' open_issue issue.md
check 'gets a comment' grep -q '^issue comment 17' asked
lacks 'and no second one is opened' 'create' cat asked
status 2 'no argument' open_issue

# ---- the flame graphs, in a repository whose program "records" stacks that are made up ----
mkdir -p "$tmp/flame/ci" && cd "$tmp/flame" || exit 1
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
cp "$top"/ci/{flame-ci,commits}.sh ci/
git init -q -b main . && echo build >.gitignore
printf 'build/gcc/bn-flamegraph: program\n\tmkdir -p build/gcc && cp program $@ && chmod +x $@\n' >Makefile
version() { # a commit with that many of 10000 (or TOTAL) samples, and some more in each run, in one function
    cat >program <<END
#!/bin/sh
[ "\$1" = record ] || exec "$bin/bn-flamegraph" "\$@"
[ $1 -gt 0 ] || exit 1
for file; do :; done
run=\${file%.json} && run=\${run#\${run%?}}
printf 'main;work %d\nmain;rest %d\n' \$(($1 + ${2:-10000} / 1000 * run)) \$((${2:-10000} - $1 - ${2:-10000} / 1000 * run)) |
    "$bin/bn-flamegraph" export -q --format json - -o "\$file"
END
    git add . && git commit -q -m "$1"
}
flame() { CC=gcc ci/flame-ci.sh "$@"; }
flame_of() { # head, base
    git checkout -q --detach "$1" && flame "$2"
    local status=$?
    git checkout -q main
    return "$status"
}
version 5000
version 5100
version 6000
version 0
version 10 20
says 0 'a function that grew little' 'status 0; artefacts' flame_of main~3 main~4
check 'leaves recordings and pictures' test -s build/flame/base5.json -a -s build/flame/head.svg -a -s build/flame/diff.svg
check 'and what the comparison says' test -s build/flame/diff.txt
says 1 'one that grew by ten points fails' 'FAILED.*work|work.*FAILED|status 1; artefacts' flame_of main~2 main~3
check 'by the comparison, not for lack of data' grep -q '1 with significantly more self' build/flame/diff.txt
check 'and there is a text for an issue' grep -q 'FAILED: work gained' build/flame/issue.md
says 1 'without a recording it fails' 'no recording of head' flame_of main~1 main~2
says 1 'growth that could have been missed is not passed' '^FAILED: no significant gain over 5 points, but changes under' flame_of main main
says 3 'a commit that does not exist' 'no such commit' flame none
rm -rf build/flame
says 0 '--help prints the usage' 'ci/flame-ci.sh \[BASE\]' flame --help
says 0 'also after a commit' 'ci/flame-ci.sh \[BASE\]' flame main~1 --help
says 2 'an unknown option is refused' 'usage: ci/flame-ci.sh' flame --runs
says 2 'so are two commits' 'usage: ci/flame-ci.sh' flame main~2 main~1
check 'and nothing is recorded' test ! -e build/flame
check 'nothing is left' equal "$(git worktree list | wc -l)" 1
