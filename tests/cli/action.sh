#!/usr/bin/env bash
# action.yml in a workflow of somebody else: its steps are read by a YAML parser and run as GitHub runs them, in a repository
# made for this. Good receipts and equal numbers pass; forged, missing and other ones fail. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset BN_LEDGER BN_MODEL BN_ISA BN_DEVICE BN_THREADS GITHUB_STEP_SUMMARY
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
python=python3
"$python" -c 'import yaml' 2>/dev/null || python=/usr/bin/python3
if ! "$python" -c 'import yaml' 2>/dev/null; then
    skip "the action" "no python3-yaml"
    exit
fi

# workflow.py WORKFLOW [NAME=INPUT...]: runs its job; NAME=INPUT replaces an input of the action.
cat >"$tmp/workflow.py" <<'END'
import os, re, subprocess, sys, tempfile, yaml

def value(expression, context):  # names, texts, format(), ||, !=: what action.yml has
    parts = [part.strip() for part in expression.split("||")]
    for part in parts:
        if " != " in part:
            left, right = part.split(" != ")
            found = value(left, context) != value(right, context)
        elif part.startswith("format("):
            form, *names = [value(a.strip(), context) for a in part[7:-1].split(",")]
            found = form.format(*names)
        else:
            found = part[1:-1] if part.startswith("'") else context[part]
        if found:
            return found
    return found

def filled(text, context):
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda m: str(value(m[1], context)), text)

workflow = yaml.safe_load(open(sys.argv[1]))
changes = dict(a.split("=", 1) for a in sys.argv[2:])
(job,) = workflow["jobs"].values()
for step in job["steps"]:
    if not step.get("uses", "").startswith("./"):
        continue
    folder = os.path.abspath(step["uses"])
    action = yaml.safe_load(open(os.path.join(folder, "action.yml")))
    given = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in {**step["with"], **changes}.items()}
    assert set(given) <= set(action["inputs"]), f"no such input: {set(given) - set(action['inputs'])}"
    context = {f"inputs.{name}": given.get(name, entry.get("default", "")) for name, entry in action["inputs"].items()}
    context.update({"github.action_path": folder, "github.action_ref": "main", "github.action_repository": "o/r", "github.server_url": "file:///nowhere"})
    assert action["runs"]["using"] == "composite"
    added = tempfile.mktemp()
    environment = {**os.environ, "GITHUB_PATH": added}
    open(added, "w").close()
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"], "a text of a workflow becomes a command"
        if "if" in step and not value(step["if"], context):
            continue
        path = open(added).read().split()[::-1] + [environment["PATH"]]
        variables = {k: filled(v, context) for k, v in step.get("env", {}).items()}
        status = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                                env={**environment, **variables, "PATH": ":".join(path)}).returncode
        if status:
            sys.exit(status)
END

# ---- the repository of somebody else ----
mkdir -p "$tmp/sample/.github/workflows" "$tmp/sample/bn/packaging" && cd "$tmp/sample" || exit 1
cp "$top/action.yml" bn && cp -R "$top/packaging/action" bn/packaging
cat >.github/workflows/model.yml <<END
on: push
jobs:
  verify:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
      - uses: ./bn
        with:
          path: $bin
          receipts: |
            receipts/*.json
          policy: policy.json
END
printf '{"comment": "ternary kernels", "require_quantized_kernels": true}\n' >policy.json
mkdir receipts
"$bin/bn-run" -q -p 'ROMEO:' -n 6 --receipt receipts/one.json >/dev/null
"$bin/bn-run" -q -p 'JULIET:' -n 6 --receipt receipts/two.json >/dev/null
git init -q -b main . && git add . && git commit -q -m one
action() { PATH=/usr/bin:/bin "$python" "$tmp/workflow.py" .github/workflows/model.yml "$@"; }
forge() { "$python" "$top/tests/cli/forge_receipt.py" receipts/one.json "$1"; }

says 0 "good receipts pass" '2 receipts: 2 verified' action
says 0 "so does one of them" 'verified, level: replay' action receipts=receipts/one.json
says 0 "and without a replay, signed by nobody, only its form" 'level: consistency' action receipts=receipts/one.json replay=false policy=
forge 'p["compute_path"] = "mock"' >forged.json
says 1 "a forged one fails" 'REFUSED' action receipts=forged.json
sed 's/"tokens_generated": 6/"tokens_generated": 7/' receipts/one.json >edited.json
says 5 "one that was edited fails" 'self-digest' action receipts=edited.json
cp forged.json receipts/forged.json
says 1 "among good ones, too" '2 verified' action
rm receipts/forged.json
"$bin/bn-run" -q -p 'ROMEO:' -n 8 --temp 1 --seed 1 --receipt sampled.json >/dev/null
"$python" "$top/tests/cli/forge_receipt.py" sampled.json 'p["request"]["seed"] = 2' >unlike.json
says 0 "another one is consistent" 'level: consistency' action receipts=unlike.json replay=false
says 1 "but is not what comes out again, and fails" 'FAIL +replay' action receipts=unlike.json
"$bin/bn-run" -q -p 'ROMEO:' -n 6 -m "$top/fixtures/shakespeare-5m-i2_s.gguf" --receipt other.json >/dev/null
says 1 "one of a model that is not there is not replayed, and fails" 'FAIL +replay' action receipts=other.json
says 0 "with the model it passes" 'level: replay' action receipts=other.json model="$top/fixtures/shakespeare-5m-i2_s.gguf"

# ---- no data is not a success ----
says 3 "no receipt matches" "there is no receipt 'none/\*.json'" action receipts='none/*.json'
says 3 "one of two patterns matches nothing" "there is no receipt 'none.json'" action receipts=$'receipts/*.json\nnone.json'
mkdir empty
echo '{"require_gpu_kernels": true}' >strict.json
says 3 "a folder without receipts" 'no receipt' action receipts=empty
says 3 "lines without a name" 'names no file' action receipts=$' \n'
says 3 "no policy" 'none.json' action policy=none.json
says 2 "nothing to do" 'nothing to do' action receipts=
says 2 "a replay that is neither on nor off" "replay is 'yes'" action replay=yes
says 1 "a policy that is not met" 'gpu-kernels' action policy=strict.json receipts=receipts/one.json
says 3 "no program" 'bn-verify-receipt is not among the programs' action path="$tmp/sample/empty"
says 3 "no folder of programs" 'there is no folder' action path="$tmp/none"
# shellcheck disable=SC2016 # as it is
action receipts='$(touch planted)' >/dev/null 2>&1
action receipts='"; touch planted; "' >/dev/null 2>&1
action policy='policy.json --junit=planted' model='--junit=planted' >/dev/null 2>&1
check "an input does not become a command, or an option" test ! -e planted

# ---- signed ones ----
"$bin/bn-verify-receipt" keygen -o key >/dev/null && "$bin/bn-verify-receipt" keygen -o else >/dev/null
"$bin/bn-verify-receipt" sign receipts/one.json --key key -o signed.json
says 0 "a receipt that the key signed passes" 'level: replay' action receipts=signed.json public-key=$'else.pub\nkey.pub'
says 1 "unsigned ones do not" 'signature' action public-key=key.pub
status 5 "nor one that another key signed" action receipts=signed.json public-key=else.pub

# ---- benchmarks: a command that prints known numbers ----
cat >mine.sh <<'SH'
echo "cost $((${1:-$(cat level)} * 1000 + $(date +%N | cut -c 9)))"
SH
echo 100 >level
numbers=(receipts= extract='cost=cost ([0-9]+)' rounds=6)
against=("${numbers[@]}" benchmark-base='sh mine.sh 100')
says 0 "equal commands pass" 'no difference' action "${against[@]}" benchmark='sh mine.sh 100'
says 1 "a slower one fails the gate" 'WORSE' action "${against[@]}" benchmark='sh mine.sh 130'
says 1 "one that fails does, too" 'status' action "${against[@]}" benchmark='exit 3'
says 1 "one without the number does, too" 'ended with status 1' action "${against[@]}" benchmark='echo fast'
says 1 "without a baseline there is nothing to compare with" 'baseline' action "${numbers[@]}" benchmark='sh mine.sh'
# As if nothing else had run on the machine.
mkdir "$tmp/programs"
cat >"$tmp/programs/bn-bench" <<END
#!/bin/bash
set -o pipefail
[ "\$1" = cmd ] || exec "$bin/bn-bench" "\$@"
"$bin/bn-bench" "\$@" | sed -E 's/"(used_cpus|stolen_cpus)": [0-9.e+-]+/"\1": 0/'
END
chmod +x "$tmp/programs/bn-bench"
numbers+=(path="$tmp/programs")
measure() { "$tmp/programs/bn-bench" cmd -q --json --shell --name benchmark -r 6 --output-only --extract 'cost=cost ([0-9]+)' -- 'sh mine.sh' >"$1"; }
git add . && git commit -q -m two && measure first.json && measure second.json
check "a baseline is saved" "$bin/bn-bench" baseline save main first.json
says 0 "equal numbers pass" 'no difference larger' action receipts= benchmark-document=second.json
says 0 "also when the action measures" 'no difference larger' action "${numbers[@]}" benchmark='sh mine.sh'
echo 130 >level && measure slow.json
says 1 "a regression fails the gate" 'WORSE' action receipts= benchmark-document=slow.json
says 1 "also when the action measures" 'WORSE' action "${numbers[@]}" benchmark='sh mine.sh'
says 2 "a document and a command" 'excludes' action receipts= benchmark-document=slow.json benchmark=true

# ---- programs of a release ----
name=bn-0.1.0-linux-$(uname -m)
mkdir -p "$tmp/releases/v0.1.0" "$tmp/stage/$name" && cp "$bin/bn-verify-receipt" "$tmp/stage/$name"
tar -czf "$tmp/releases/v0.1.0/$name.tar.gz" -C "$tmp/stage" "$name"
(cd "$tmp/releases/v0.1.0" && sha256sum "$name.tar.gz" >SHA256SUMS)
release=(path= releases="file://$tmp/releases" version=0.1.0 receipts=receipts/one.json)
if command -v curl >/dev/null; then
    says 0 "the programs of a release verify" 'level: replay' action "${release[@]}"
    says 0 "a version may begin with v" 'level: replay' action "${release[@]}" version=v0.1.0
    says 3 "a release without bn-bench cannot measure" 'bn-bench is not among' action "${release[@]}" benchmark=true
    says 2 "the branch of an action is not a release" "'main' is not a release" action "${release[@]}" version=
    says 6 "a release that is not there" 'cannot download' action "${release[@]}" version=0.2.0
    echo >>"$tmp/releases/v0.1.0/$name.tar.gz"
    says 5 "an archive that was changed is not used" 'is not the file of SHA256SUMS' action "${release[@]}"
    : >"$tmp/releases/v0.1.0/SHA256SUMS"
    says 5 "nor one that has no digest" 'SHA256SUMS has no' action "${release[@]}"
else
    skip "the programs of a release verify" "no curl"
fi

# ---- the summary of a job ----
GITHUB_STEP_SUMMARY=$tmp/summary action receipts=forged.json >/dev/null 2>&1
check "the summary has what the programs print" grep -q 'REFUSED' "$tmp/summary"
