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
import copy, glob, os, re, subprocess, sys, yaml

def fail(text):
    print(text)
    sys.exit(1)

def steps(workflow):
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            yield name, job, step

# What each job must do: the beginning of the command, and its condition.
NIGHT = "failure() && github.event_name == 'schedule'"
REQUIRED = {
    ("benchmark.yml", "gate"): [("ci/bench-ci.sh", None), ("ci/open-issue.sh build/bench-gate/issue.md '", NIGHT)],
    ("benchmark.yml", "baselines"): [("ci/update-baselines.sh --pull main", None)],
    ("flamegraph.yml", "compare"): [("ci/flame-ci.sh", None), ("ci/flame-archive.sh", "always()"),
                                    ("ci/open-issue.sh build/flame/issue.md '", NIGHT)],
    ("check.yml", "check"): [("make ", None)],
    ("check.yml", "deep"): [("ci/deep.sh ${{ matrix.part }}", None)],
    ("check.yml", "receipt"): [("ci/receipt.sh", None)],
    ("nightly.yml", "long"): [("ci/deep.sh ${{ matrix.part }}", None), ("ci/open-issue.sh build/none.md '", NIGHT)],
    ("nightly.yml", "fuzz"): [("ci/deep.sh fuzz", None), ("ci/open-issue.sh build/none.md '", NIGHT)],
    ("release.yml", "parts"): [("packaging/release.sh --to parts --parts ", None)],
    ("release.yml", "publish"): [("packaging/release.sh --from sbom ", None),
                                 ("packaging/release.sh --only publish", "github.event_name == 'push'")],
}
# What the token of a job may do besides reading.
WRITES = {("benchmark.yml", "gate"): {"issues"}, ("benchmark.yml", "baselines"): {"contents", "pull-requests"},
          ("flamegraph.yml", "compare"): {"issues"}, ("nightly.yml", "long"): {"issues"}, ("nightly.yml", "fuzz"): {"issues"},
          ("release.yml", "publish"): {"contents"}}
UPLOADS = ["build/bench-gate", "build/flame", "build/flame-archive", "build/fuzz/*-*", "build/fuzz/fuzz_*-*", "build/release",
           "build/release\nbuild/used", "ci/inference.json"]

def missing(files):
    for (file, name), wanted in REQUIRED.items():
        job = files[file]["jobs"].get(name, {"steps": []})
        for command, condition in wanted:
            if not any(s.get("run", "").startswith(command) and s.get("if") == condition for s in job["steps"]):
                return f"{file}: {name}: no step '{command}' if {condition}"
    for file, workflow in files.items():
        if workflow.get("permissions") != {"contents": "read"}:
            return f"{file}: the token may do more than reading"
        for name, job in workflow["jobs"].items():
            if {k for k, v in job.get("permissions", {}).items() if v == "write"} != WRITES.get((file, name), set()):
                return f"{file}: {name}: permissions"
            if "schedule" in workflow[True] and not job.get("if") and "issues" not in job.get("permissions", {}):
                return f"{file}: {name}: opens no issue"
    uploads = sorted(s["with"]["path"].strip() for w in files.values() for _, _, s in steps(w) if "upload-artifact" in s.get("uses", ""))
    return f"uploads: {uploads}" if uploads != UPLOADS else None

def planted(files):
    for file in files:
        for name, job in files[file]["jobs"].items():
            for i, step in enumerate(job["steps"]):
                needed = any(step.get("run", "").startswith(c) for c, _ in REQUIRED[file, name]) or "upload-artifact" in step.get("uses", "")
                for change in ("gone", "if"):
                    other = copy.deepcopy(files)
                    if change == "gone":
                        del other[file]["jobs"][name]["steps"][i]
                    else:
                        other[file]["jobs"][name]["steps"][i]["if"] = "false"
                    if needed and (change == "gone" or "run" in step):
                        yield f"{file}: {name}: {step}: {change}", other
            for permission in ("actions", "contents", "issues", "pull-requests"):
                other = copy.deepcopy(files)
                permissions = other[file]["jobs"][name].setdefault("permissions", {})
                permissions[permission] = "read" if permissions.get(permission) == "write" else "write"
                yield f"{file}: {name}: {permission}", other

files = {os.path.basename(f): yaml.safe_load(open(f)) for f in sys.argv[2:]}
targets = set(re.findall(r"^([a-z][a-z-]*):", open("Makefile").read() + open("packaging/build.mk").read(), re.M))
parts = {name.replace("_", "-") for name in re.findall(r"^part_([a-z_]+)\(\)", open("ci/deep.sh").read(), re.M)}
named = set()
setup = ("apt-get update && apt-get install ", "git config --global --add safe.directory ")
for file, workflow in files.items():
    for name, job, step in steps(workflow):
        at = f"{file}: {name}: {step}"
        if sys.argv[1] in ("commands", "parts") and "run" in step:
            command = step["run"]
            if command.startswith(setup):
                continue
            words = command.split()
            if words[0] == "make":
                wanted = job["strategy"]["matrix"]["target"] if "${{" in command else [w for w in words[1:] if w[0] != "-"]
                if set(wanted) - targets:
                    fail(f"{at}: the Makefile has no such target")
            elif words[0] == "ci/deep.sh":
                for part in job["strategy"]["matrix"]["part"] if "${{" in command else words[1:]:
                    named.add(part)
                    if part not in parts:
                        fail(f"{at}: ci/deep.sh has no part {part}")
            elif not (words[0].startswith(("ci/", "packaging/")) and os.access(words[0], os.X_OK)):
                fail(f"{at}: not a make target, not a script of ci/ or packaging/")
        if sys.argv[1] == "artefacts" and "upload-artifact" in step.get("uses", ""):
            if step["with"]["retention-days"] != 90 or step.get("if") != "always()":
                fail(f"{at}: artefacts are kept 90 days, those of failed jobs too")
        if sys.argv[1] == "time" and not job.get("timeout-minutes"):
            fail(f"{at}: no time limit")
if sys.argv[1] == "names":
    on = {f: w[True] for f, w in files.items()}  # "on" is a truth value in YAML
    assert set(files) == {"benchmark.yml", "check.yml", "flamegraph.yml", "nightly.yml", "release.yml"}, files.keys()
    assert on["release.yml"]["push"] == {"tags": ["v*"]}
    assert all("schedule" in on[f] for f in ("benchmark.yml", "flamegraph.yml", "nightly.yml"))
    assert {"base", "platform_filter", "update_baselines"} <= set(on["benchmark.yml"]["workflow_dispatch"]["inputs"])
    assert any("arm" in r for r in files["check.yml"]["jobs"]["check"]["strategy"]["matrix"]["runner"])
if sys.argv[1] == "required" and missing(files):
    fail(missing(files))
if sys.argv[1] == "planted":
    n = 0
    for what, other in planted(files):
        n += 1
        if not missing(other):
            fail(f"not found: {what}")
    print(f"{n} faults found")
if sys.argv[1] == "parts" and named ^ (parts - {"all"}):
    fail(f"not in a workflow: {parts - {'all'} - named}")
if sys.argv[1] == "rounds":
    job = files["nightly.yml"]["jobs"]["fuzz"]
    env = next(s["env"] for s in job["steps"] if s.get("run") == "ci/deep.sh fuzz")
    rounds = -(-len(glob.glob("tests/fuzz/fuzz_*.c")) // env["FUZZ_JOBS"])
    if rounds * env["FUZZ_SECONDS"] / 60 + 30 > job["timeout-minutes"]:
        fail(f"{rounds} rounds of {env['FUZZ_SECONDS']} s do not fit into {job['timeout-minutes']} minutes")
if sys.argv[1] == "run":  # the scripts of a job with the values of its matrix, for an event
    name, event = os.environ["JOB"], os.environ["EVENT"]
    job = files["release.yml"]["jobs"][name]
    for values in job.get("strategy", {}).get("matrix", {}).get("include", [{}]):
        for step in job["steps"]:
            command = step.get("run", "")
            if command.startswith("packaging/") and step.get("if") in (None, f"github.event_name == '{event}'"):
                for key, value in values.items():
                    command = command.replace("${{ matrix.%s }}" % key, value)
                command = re.sub(r"\$\{\{ github.event_name == '(\w+)' && '(\S*)' \|\| '' \}\}", lambda m: m[2] if m[1] == event else "", command)
                assert "${{" not in command, command
                print(command)
if sys.argv[1] == "uploads":
    print(sum("upload-artifact" in step.get("uses", "") for w in files.values() for _, _, step in steps(w)))
END
workflows() { python3 "$tmp/workflows.py" "$@"; }
if python3 -c 'import yaml' 2>/dev/null; then
    check 'the workflows are YAML, with their triggers and inputs' workflows names .github/workflows/*.yml
    check 'every step is a target of make or a script of ci/ or packaging/' workflows commands .github/workflows/*.yml
    check 'every job has a time limit' workflows time .github/workflows/*.yml
    check 'artefacts are kept for 90 days' workflows artefacts .github/workflows/*.yml
    check 'and there are some for each job that measures' equal "$(workflows uploads .github/workflows/*.yml)" 8
    check 'every job has its steps, conditions, permissions and uploads' workflows required .github/workflows/*.yml
    says 0 'and would be refused without any of them' '^[1-9][0-9]+ faults found$' workflows planted .github/workflows/*.yml
    sed 's,ci/bench-ci.sh,ci/bench-cl.sh,' .github/workflows/benchmark.yml >"$tmp/wrong.yml"
    says 1 'a step that names no script is found' 'not a script of ci/' workflows commands "$tmp/wrong.yml"
    sed 's,run: make -j2,run: make -j2 everything,' .github/workflows/benchmark.yml >"$tmp/wrong.yml"
    says 1 'so is one that names no target' 'no such target' workflows commands "$tmp/wrong.yml"
    check 'every part of ci/deep.sh is in a workflow' workflows parts .github/workflows/*.yml
    check 'the night is long enough for all fuzz targets' workflows rounds .github/workflows/*.yml
    sed 's,build-clang,build-clan,' .github/workflows/check.yml >"$tmp/wrong.yml"
    says 1 'a part that ci/deep.sh does not have is found' 'no part build-clan$' workflows commands "$tmp/wrong.yml"
    says 1 'and one that no workflow runs' 'not in a workflow.*asan-gcc' workflows parts .github/workflows/check.yml
    mkdir -p "$tmp/short" && sed 's,FUZZ_JOBS: 4,FUZZ_JOBS: 2,' .github/workflows/nightly.yml >"$tmp/short/nightly.yml"
    says 1 'and a night that is too short' 'do not fit' workflows rounds "$tmp/short/nightly.yml"
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
: >open && : >asked
status 0 'a step that failed before its report becomes an issue' open_issue none.md 'the night failed'
check 'with the title that is given' grep -q '^issue create --title the night failed' asked
check 'and the run' grep -q '/actions/runs/' text

# ---- a baseline as a pull request, in a repository with a remote and a bn-bench that only saves ----
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
mkdir -p "$tmp/pull/ci" "$tmp/pull/build/gcc" && cd "$tmp/pull" || exit 1
cp "$top/ci/update-baselines.sh" ci/
cat >build/gcc/bn-bench <<'END'
#!/bin/sh
case $1 in run) echo "run $*" ;; baseline) mkdir -p baselines/here && cat "$4" >"baselines/here/$3.json" ;; esac
END
chmod +x build/gcc/bn-bench
git init -q -b main . && echo build >.gitignore && git add . && git commit -q -m first
git init -q --bare "$tmp/origin" && git remote add origin "$tmp/origin" && git push -q origin main
: >"$tmp/asked"
sed "s,>>asked,>>$tmp/asked," "$tmp/bin/gh" >"$tmp/bin/gh-pull" && mkdir -p "$tmp/bin2" && mv "$tmp/bin/gh-pull" "$tmp/bin2/gh" && chmod +x "$tmp/bin2/gh"
sed -i 's/^case .*/exit 0/' "$tmp/bin2/gh"
pull() {
    (
        unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
        PATH=$tmp/bin2:$PATH GITHUB_RUN_ID=7 GITHUB_ACTOR=somebody OUT=build/gcc ci/update-baselines.sh "$@"
    )
}
status 0 'without --pull the run is saved' pull main
check 'and nothing is committed' equal "$(git log --oneline | wc -l)" 1
rm -r baselines
status 0 'with --pull' pull --pull main -- -t 1
branch=baselines-$(uname -m)-7
check 'it is a commit on a branch of the remote' equal "$(git -C "$tmp/origin" show "$branch:baselines/here/main.json")" 'run run --json -t 1'
check 'of who asked for it' equal "$(git -C "$tmp/origin" log -1 --format=%an "$branch")" somebody
check 'main is as it was' equal "$(git -C "$tmp/origin" log --oneline main | wc -l)" 1
check 'and a pull request asks for it' grep -q "^pr create --base main --head $branch --title baselines: save a run of $(git rev-parse --short main)" "$tmp/asked"
git switch -q main && mkdir -p baselines/here && echo 'run run --json' >baselines/here/main.json && git add . && git commit -q -m same
says 1 'a run that changes nothing is not asked for' 'nothing changed' pull --pull main
git remote remove origin && git branch -q -D "$branch"
: >"$tmp/asked"
says 128 'without a remote it fails' 'origin' pull --pull main -- -t 2
check 'and no pull request is opened' equal "$(cat "$tmp/asked")" ''

# ---- the flame graphs, in a repository whose program "records" stacks that are made up ----
mkdir -p "$tmp/flame/ci" && cd "$tmp/flame" || exit 1
cp "$top"/ci/{flame-ci,commits}.sh ci/
git init -q -b main . && echo build >.gitignore
printf 'build/gcc/bn-flamegraph: program\n\tmkdir -p build/gcc && cp program $@ && chmod +x $@\n' >Makefile
version() { # a commit with that many of 10000 (or TOTAL) samples, and some more in each run, in one function
    cat >program <<END
#!/bin/sh
[ "\$1" = record ] || exec "$bin/bn-flamegraph" "\$@"
case "\$*" in *' -t 1 '*) ;; *) exit 2 ;; esac
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
sed -i 's/ --strict//' ci/flame-ci.sh
says 0 'without --strict it would be' 'status 0; artefacts' flame_of main main
cp "$top/ci/flame-ci.sh" ci/ && sed -i 's/ -t 1 / /' ci/flame-ci.sh
says 1 'the program records one thread, or nothing' 'no recording of base' flame_of main~3 main~4
cp "$top/ci/flame-ci.sh" ci/
rm -rf build/flame
says 0 '--help prints the usage' 'ci/flame-ci.sh \[BASE\]' flame --help
says 0 'also after a commit' 'ci/flame-ci.sh \[BASE\]' flame main~1 --help
says 2 'an unknown option is refused' 'usage: ci/flame-ci.sh' flame --runs
says 2 'so are two commits' 'usage: ci/flame-ci.sh' flame main~2 main~1
check 'and nothing is recorded' test ! -e build/flame
check 'nothing is left' equal "$(git worktree list | wc -l)" 1

# ---- the archive of the nights ----
mkdir -p "$tmp/archive/ci" && cd "$tmp/archive" || exit 1
cp "$top/ci/flame-archive.sh" ci/
cat >ci/phase2-flamegraph.sh <<'END'
#!/bin/sh
echo "$*" >>asked
case "$*" in *--archive*) mkdir -p "$2/archives/new" ;; *) ls "$2/archives" >"$2/timeline.md" ;; esac
END
cat >"$tmp/bin2/gh" <<'END'
#!/bin/sh
case "$2 $3" in
list*) echo 30 && echo 20 && echo 10 ;;
'download 20' | 'download 10') for dir; do :; done && mkdir -p "$dir/archives/night-$3" ;;
*) exit 1 ;;
esac
END
chmod +x ci/phase2-flamegraph.sh "$tmp/bin2/gh"
archive() { rm -f asked && PATH=$tmp/bin2:$PATH GH_TOKEN=${token-} ci/flame-archive.sh; }
token=t status 0 'the archive of the nights goes on' archive
check 'from the newest run that has one' equal "$(xargs <build/flame-archive/timeline.md)" 'new night-20'
check 'with one thread' grep -qx 'built-in build/flame-archive -t 1 --archive' asked
status 0 'without GitHub it grows where it is' archive
rm -r build/flame-archive
sed -i 's/^.download.*/nothing) ;;/' "$tmp/bin2/gh"
token=t says 0 'the first one says so' 'this is the first one' archive
check 'and is one' equal "$(cat build/flame-archive/timeline.md)" new
sed -i '2i exit 4' ci/phase2-flamegraph.sh
status 4 'a recording that fails is reported' archive
