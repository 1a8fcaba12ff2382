#!/usr/bin/env bash
# bn-bench profile --graph, --code and --roofline: every form is valid, for any times. An incomplete profile ends with 1, which a
# busy machine may cause; both statuses are accepted. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
. tests/tap.sh
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
model=fixtures/shakespeare-5m-i2_s.gguf
profile() { # arguments; leaves $status, $tmp/out, $tmp/err
    "$bin/bn-bench" profile -m "$model" -p 4 -n 3 -r 1 "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
}
done_with() { # arguments
    profile "$@"
    if [ "$status" -gt 1 ] || [ ! -s "$tmp/out" ]; then cat "$tmp/err"; return 1; fi
}
has() { grep -qE -- "$1" "$tmp/out" || { cat "$tmp/out"; return 1; }; }
has_not() { ! grep -qE -- "$1" "$tmp/out"; }
lines() { equal "$(grep -cE -- "$1" "$tmp/out")" "$2"; }
n_layers=$("$bin/bn-run" inspect -m "$model" | sed -nE '1s/.*: ([0-9]+) layers.*/\1/p')

check 'a tree' done_with --graph tree -t 2
check 'of one pass' lines '^Pass 2  [0-9.]+µs \(1 token\)$' 1
check 'with its layers' lines '^(├|└)── Layer [0-9]+$' "$n_layers"
check 'bricks in them' has '^│   ├── QkvProjection  [0-9]+\.[0-9]µs \([0-9]+ elem\)$'
check 'and kernels in those' has '^│   │   └── ternary_gemv_[a-z0-9]+$'
check 'the first pass' done_with --graph tree -t 1 --pass 0
check 'is the prompt' has '^Pass 0  [0-9.]+µs \(4 tokens\)$'
check 'all of them' done_with --graph tree -t 1 --pass all
check 'are under a title' lines '^(Execution graph|(├|└)── Pass [0-2]  .*)$' 4
check 'plain and wide' done_with --graph tree -t 2 --ascii --wide
check 'has no other characters' has_not '[^ -~]'
check 'but a digest' has 'ternary_gemv_[a-z0-9]+  .*  code [0-9a-f]{16}$'
check 'and what each thread did' has 'ternary_gemv_[a-z0-9]+ of thread 1 '

# ---- a tree without times: the same bytes whatever the threads, the instruction set and the times are ----
nano=fixtures/nano-bitnet-b1.58-i2_s-42.gguf
structure() { # arguments
    "$bin/bn-bench" profile -q -p 4 -n 2 -r 1 --graph structure --ascii "$@" </dev/null 2>"$tmp/err" || { cat "$tmp/err"; return 1; }
}
cat >"$tmp/golden" <<'END'
Pass 0 (4 tokens)
|-- Team (0 elem)
|-- Embedding (512 elem)
|-- Layer 0
|   |-- RmsNorm (512 elem)
|   |-- ActivationQuantize (512 elem)
|   |-- QkvProjection (1024 elem)
|   |-- RopeEmbedding (768 elem)
|   |-- KvStore (512 elem)
|   |-- Attention (512 elem)
|   |-- RmsNorm (512 elem)
|   |-- ActivationQuantize (512 elem)
|   |-- OutputProjection (512 elem)
|   |-- ResidualAdd (512 elem)
|   |-- RmsNorm (512 elem)
|   |-- ActivationQuantize (512 elem)
|   |-- GateProjection (1024 elem)
|   |-- UpProjection (1024 elem)
|   |-- Activation (1024 elem)
|   |-- RmsNorm (1024 elem)
|   |-- ActivationQuantize (1024 elem)
|   |-- DownProjection (512 elem)
|   `-- ResidualAdd (512 elem)
|-- RmsNorm (128 elem)
|-- LmHead (512 elem)
|-- Team (0 elem)
`-- Sampling (1 elem)
END
check 'the structure of a pass is the one that is written here' equal "$(structure -m "$nano" --pass 0 -t 1)" "$(cat "$tmp/golden")"
for gguf in "$nano" fixtures/duo-maple-*.gguf fixtures/quad-qwen35-q2_0-*.gguf; do
    structure -m "$gguf" --pass all -t 1 --isa ref >"$tmp/first"
    check "${gguf##*/}: all passes have one" test "$(grep -cE '^.-- Pass [01] ' "$tmp/first")" -eq 2 -a "$(wc -l <"$tmp/first")" -gt 50
    for variant in '-t 1 --isa ref' '-t 2 --isa ref' '-t 3 --isa auto' '-t 1 --isa auto --batch 4'; do
        read -ra options <<<"$variant"
        check "the same bytes with $variant" equal "$(structure -m "$gguf" --pass all "${options[@]}")" "$(cat "$tmp/first")"
    done
    check 'another model has other bytes' test "$(structure -m fixtures/nano-llama-i2_s-42.gguf --pass all -t 2)" != "$(cat "$tmp/first")"
done
check 'kernels have the names of the instruction set' grep -qE '^.   .   .-- ternary_gem[mv]_ref$' <(structure -m "$nano" --level kernel --isa ref)
check 'a tree that is divided otherwise is another one' test "$(structure -m "$nano" --pass all --batch 2)" != "$(structure -m "$nano" --pass all)"

# ---- from a digest to the code ----
look_up() { "$bin/bn-bench" profile --code "$@"; }
bytes_of() { # text of a look-up: the bytes that it shows, disassembled or not, and their digest
    python3 - "$1" <<'END'
import hashlib, re, sys
text = open(sys.argv[1]).read()
shown = re.findall(r"^ +[0-9a-f]+:\t([0-9a-f ]+?) *(?:\t|$)", text, re.M) or re.findall(r"^([0-9a-f]+)$", text, re.M)
words = "".join(shown).split() if "hexadecimal" in text else " ".join(shown).split()
print(hashlib.sha256(b"".join(bytes.fromhex(w) if len(w) != 8 or "x86" in text else bytes.fromhex(w)[::-1] for w in words)).hexdigest())
END
}
mkdir "$tmp/empty"
check 'a graph' done_with --graph json -t 1 --isa ref
digest=$(python3 -c "import json; print(json.load(open('$tmp/out'))['code']['ternary_gemv_ref']['sha256'])")
look_up "${digest:0:8}" >"$tmp/code"
check 'eight digits find the symbol' grep -qE '^symbol +bn_ternary_gemv_ref$' "$tmp/code"
check 'its instruction set' grep -qE '^instruction set +ref$' "$tmp/code"
check 'and where the code is' grep -qE "^code +[0-9]+ bytes at 0x[0-9a-f]+ of $bin/bn" "$tmp/code"
if command -v objdump >/dev/null; then
    check 'it is disassembled' grep -qE '^[0-9a-f]+ <bn_ternary_gemv_ref>:$' "$tmp/code"
    check 'and the bytes shown have the digest' equal "$(bytes_of "$tmp/code")" "$digest"
else
    skip 'the code is disassembled' 'no objdump'
fi
PATH=$tmp/empty look_up "$digest" >"$tmp/code"
check 'without objdump it is shown in hexadecimal' grep -q '^bytes in hexadecimal; not disassembled: objdump: ' "$tmp/code"
check 'and has the digest, too' equal "$(bytes_of "$tmp/code")" "$digest"
other=$(tr 0-9a-f 1-9a-f0 <<<"$digest")
says 3 'a digest that no kernel has is refused' 'hint: .*program\.commit' look_up "$other"
says 3 'also when only its end differs' 'no kernel of this program' look_up "${digest:0:63}$(tr 0-9a-f 1-9a-f0 <<<"${digest:63}")"
for vain in "${digest:0:7}" "${digest}0" "${digest:0:7}G"; do says 2 "'${vain:0:9}' with ${#vain} characters is not one" '8 to 64 hexadecimal' look_up "$vain"; done
says 2 'code is not a document' 'cannot be combined with --json' look_up "$digest" --json

# ---- other forms ----
check 'DOT' done_with --graph dot -t 2
check 'begins as such' equal "$(head -n 1 "$tmp/out")" 'digraph execution {'
check 'and ends' equal "$(tail -n 1 "$tmp/out")" '}'
check 'with threads that meet' has '^    n[0-9]+ -> n[0-9]+ \[color=purple\];$'
if command -v dot >/dev/null && command -v nop >/dev/null; then
    for variant in '-t 1' '-t 2' '-t 1 --level brick' '-t 2 --level brick' '-t 2 --pass 0' '-t 1 --pass all' '-t 2 --pass all'; do
        read -ra options <<<"$variant"
        check "DOT of $variant" done_with --graph dot "${options[@]}"
        check 'is understood by Graphviz' sh -c "nop '$tmp/out' >'$tmp/read'"
        check 'with all its nodes' equal "$(grep -cE '^\sn[0-9]+\s+\[' "$tmp/read")" "$(grep -cE '^ +n[0-9]+ \[' "$tmp/out")"
    done
    check 'a small one' done_with --graph dot -t 2 --level brick
    status 0 'is drawn' timeout 300 dot -Tsvg -o "$tmp/graph.svg" "$tmp/out"
    check 'without a word' equal "$(cat "$tmp/tap")" ""
else
    skip 'DOT is understood by Graphviz' 'Graphviz is not installed'
fi
check 'the critical path' done_with --graph path -t 2 --what-if DownProjection=2 --what-if LmHead=1.5
check 'is of bricks' has '^GateProjection +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$'
check 'a modelled path is marked as a model' lines '^model: (DownProjection 2|LmHead 1.5) times as fast: path ' 2
check 'bricks are enough for it' done_with --graph path -t 2 --level brick
check 'the same at the level of kernels' done_with --roofline -t 1
check 'places bricks' has '^GateProjection +[0-9.]+ [mun]?s +[0-9.]+ .MAC/s +[0-9.]+ .MAC/s +([0-9]|INVALID)'
check 'others have a speed and no limit' \
    has '^RmsNorm +[0-9.]+ [mun]?s +[0-9.]+ .op/s +- +no limit( +-)?$'
check 'none has less' has_not '^[A-Za-z]+ +its kernels count neither'

# holds EXPRESSION: of the JSON document d
holds() {
    python3 - "$tmp/out" "$@" <<'END' || { head -c 2000 "$tmp/out"; return 1; }
import json, sys
d = json.load(open(sys.argv[1]))
g, s = d.get("graph", {}), d.get("schedule", {})
nodes, edges = g.get("nodes", []), g.get("edges", [])
def of(kind): return [n for n in nodes if n["kind"] == kind]
def ns(kind): return sum(n["ns"] for n in of(kind))
sys.exit(not eval(sys.argv[2]))
END
}
check 'JSON' done_with --graph json -t 2 --what-if LmHead=2
check 'has nodes with numbers and parents' holds \
    'all(n["id"] == i and n.get("parent", -1) < i for i, n in enumerate(nodes))'
check 'kernels with the digest of their code' holds \
    'len(of("kernel")) >= 20 and all(n["code_sha256"] == d["code"][n["name"]]["sha256"] for n in of("kernel"))'
check 'edges of which those of the tree are the parents' holds \
    'sum(e["kind"] in ("contains", "launches") and nodes[e["to"]]["parent"] == e["from"] for e in edges) == len(nodes) - 1'
check 'and threads that meet and go on' holds \
    'min(sum(e["kind"] == k for e in edges) for k in ("fork", "join")) >= 10'
check 'its work is that of the tasks' holds 's["work_ns"] == ns("task") and s["wait_ns"] == ns("wait")'
check 'its path is as long as its nodes and as its bricks' holds \
    's["path_ns"] == sum(nodes[i]["ns"] for i in s["path"]) == sum(b["path_ns"] for b in s["bricks"]) <= s["span_ns"]'
check 'on which nothing has slack' holds \
    'not any(l["slack_ns"] for l in s["leaves"] if l["node"] in set(s["path"]))'
check 'a model is marked as one' holds \
    'd["what_if"][0]["model"] and not s["model"] and d["what_if"][0]["path_ns"] <= s["path_ns"]'
check 'a trace' done_with --graph chrome --pass all -t 2
check 'has both threads, each with its name' holds \
    'all(sum(e["tid"] == t and e["ph"] == p for e in d["traceEvents"]) >= n for t in (0, 1) for p, n in (("M", 1), ("X", 30)))'
check 'JSON of the roofline' done_with --roofline --json -t 2
check 'has samples, and a distance or the reason' holds \
    'all(b["samples_ns"] and (b["distance"] is not None or b["unavailable"]["distance"]) for b in d["roofline"]["bricks"])'
check 'and the limits' holds 'd["roofline"]["limits"] and any(b["distance"] is not None for b in d["roofline"]["bricks"])'

profile --graph path -t 1 --what-if Nothing=2
check 'a brick that is not there is a mistake' equal "$status" 2
profile --graph path -t 1 --what-if LmHead=0
check 'and so is a factor of 0' equal "$status" 2
profile --graph tree -t 1 --pass 3
check 'and a pass that is not there' equal "$status" 2
profile --graph tree -t 1 --level layer
check 'layers are not enough' equal "$status" 2
for vain in '--what-if LmHead=2' '--pass 0' --wide '--graph tree --json' '--graph tree --roofline' '--graph dot --what-if LmHead=2' '--graph structure --wide'; do
    read -ra options <<<"$vain"
    profile "${options[@]}" -t 1
    check "an option that would do nothing: $vain" equal "$status" 2
done
profile --graph svg
check 'a form that there is not' equal "$status" 2
