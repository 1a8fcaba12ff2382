#!/usr/bin/env bash
# bn-bench profile --graph and --roofline: every form is valid, for any times. An incomplete profile ends with 1, which a
# busy machine may cause; both statuses are accepted. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
. tests/tap.sh
unset BN_MODEL BN_ISA BN_THREADS
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
for vain in '--what-if LmHead=2' '--pass 0' --wide '--graph tree --json' '--graph tree --roofline' '--graph dot --what-if LmHead=2'; do
    read -ra options <<<"$vain"
    profile "${options[@]}" -t 1
    check "an option that would do nothing: $vain" equal "$status" 2
done
profile --graph svg
check 'a form that there is not' equal "$status" 2
