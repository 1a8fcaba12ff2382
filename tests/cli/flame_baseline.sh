#!/usr/bin/env bash
# shellcheck disable=SC2016 # the pages that are looked at have backticks
# ci/phase2-flamegraph.sh: the files and their contents, the search for a model, that a failure leaves the old files, that an
# archive keeps a recording once, and the changes that a timeline marks. The recordings here are made by hand; samplers are
# tested elsewhere. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
: "${tmp:?}"
bn=$bin/bn-flamegraph script=$root/ci/phase2-flamegraph.sh
unset BN_MODEL BITNET_SEED BITNET_DETERMINISTIC BITNET_FLAMEGRAPH_TOOL BN_THREADS
export OUT=$bin BITNET_SKIP_BUILD=1 HOME=$tmp/home HF_HUB_CACHE=$tmp/cache XDG_STATE_HOME=$tmp/state
mkdir -p "$tmp/work" "$tmp/home"
cd "$tmp/work" || exit 1

# ---- recordings made by hand ----
digest=aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999
# recording FILE CREATED COMMIT DIRTY MODEL GEMV QUANTIZE: two runs, weights of two of its functions in samples
recording() {
    local gemv=$6 quantize=$7
    cat >"$1" <<END
{"schema": "bn.stacks/1", "unit": "ns", "what": "cpu",
 "about": {"created": "$2",
  "program": {"version": "0.1.0", "commit": "$3", "dirty": $4, "compiler": "gcc 12", "flags": "-O2 | -g", "binary_sha256": "$digest"},
  "git": {"commit": null, "branch": null, "dirty": false, "unavailable": {"commit": "no commit yet", "branch": "detached head"}},
  "machine": {"key": "k1", "label": "box", "cpu_model": "A <b>CPU</b>", "cpus_usable": 2, "hypervisor": true},
  "model": {"name": "m x.gguf", "sha256": "$5"},
  "workload": {"prompt": "2+2=\`|\`", "n_predict": 1, "threads": 1, "isa": "avx2", "seed": 42},
  "phases": {"tokens": 9, "embed_ns": 70, "forward_ns": 53650, "head_ns": 12250, "sample_ns": 710},
  "sampler": {"tier": "timer", "asked_period_ns": 1009000, "delivered_period_ns": 1011234.5, "lost": 3, "throttled": 0,
              "refused": {"clock": "perf_event_paranoid is 3"}},
  "unavailable": {"agreement": "made by hand"}},
 "kinds": ["thread", "phase", "layer", "brick", "code", "system"],
 "texts": ["", "main", "bn_forward", "ternary_gemv_avx2", "quantize|row\`_avx2", "<script>alert(1)</script>", "page_fault", "thread 0", "decode", "layer 00", "outside layers", "UpProjection", "LmHead", "Embedding", "RmsNorm", "Sampling"],
 "frames": {"kind": [4, 4, 4, 4, 4, 5], "name": [1, 2, 3, 4, 5, 6], "module": [0, 0, 0, 0, 0, 0], "file": [0, 0, 0, 0, 0, 0], "line": [0, 0, 0, 0, 0, 0]},
 "nodes": {"depth": [1, 2, 3, 3, 3, 4], "frame": [0, 1, 2, 3, 4, 5]},
 "runs": [{"node": [3, 4, 5, 6], "self": [${gemv}000000, ${quantize}000000, 20000000, 7000000], "samples": [$gemv, $quantize, 20, 7]},
          {"node": [3, 4, 5, 6], "self": [$((gemv + 9))000000, ${quantize}000000, 22000000, 6000000], "samples": [$((gemv + 9)), $quantize, 22, 6]},
          {"node": [3, 4, 5, 6], "self": [$((gemv - 7))000000, $((quantize + 3))000000, 21000000, 5000000], "samples": [$((gemv - 7)), $((quantize + 3)), 21, 5]}],
 "measured": {"unit": "ns", "what": "bricks", "about": {},
  "kinds": ["thread", "phase", "layer", "brick"],
  "texts": ["", "thread 0", "decode", "layer 00", "outside layers", "UpProjection", "LmHead", "Embedding", "RmsNorm", "Sampling"],
  "frames": {"kind": [0, 1, 2, 3, 2, 3, 3, 3, 3], "name": [1, 2, 3, 5, 4, 6, 7, 8, 9], "module": [0, 0, 0, 0, 0, 0, 0, 0, 0], "file": [0, 0, 0, 0, 0, 0, 0, 0, 0], "line": [0, 0, 0, 0, 0, 0, 0, 0, 0]},
  "nodes": {"depth": [1, 2, 3, 4, 3, 4, 4, 4, 4], "frame": [0, 1, 2, 3, 4, 5, 6, 7, 8]},
  "runs": [{"node": [4, 6, 7, 8, 9], "self": [54000, 12000, 70, 65, 700]}, {"node": [4, 6, 7, 8, 9], "self": [53000, 12500, 60, 66, 720]}, {"node": [4, 6, 7, 8, 9], "self": [54500, 12100, 65, 70, 690]}]}}
END
}
old=1111111111111111111111111111111111111111 new=2222222222222222222222222222222222222222
both() { recording "$dir/phase2_1tok.json" "$@"; recording "$dir/phase2_10tok.json" "$@"; }
dir=graphs
mkdir -p $dir
both 2026-11-20T10:00:00Z $old false "$digest" 800 150
baseline() { "$script" --redraw "$@" - $dir; }

# ---- the files, and what is in them ----
status 0 'pictures and pages are made of recordings' baseline
check 'exactly the files of the workflow' equal "$(cd $dir && echo *)" 'README.md phase2_10tok.json phase2_10tok.md phase2_10tok.svg phase2_1tok.json phase2_1tok.md phase2_1tok.svg'
check 'the picture is XML' xmllint --noout $dir/phase2_1tok.svg
page=$dir/phase2_1tok.md
for fact in '2026-11-20T10:00:00Z' "$old" 'm x.gguf' "$digest" 'gcc 12' '1.009 ms' '1.011 ms' 'perf_event_paranoid is 3' '| lost samples | 3 |' \
    'not known: `detached head`' "bn-flamegraph record -m 'm x.gguf' --isa avx2 -t 1 -p '2+2=\`|\`' -n 1 -r 3 -o phase2_1tok.json" '| tokens generated | 1 |' \
    '`A <b>CPU</b>`' 'not known: `the recording does not say`'; do
    check "the page has: $fact" grep -qF -- "$fact" $page
done
check 'a bar in flags is escaped' grep -qF -- '`-O2 \| -g`' $page
check 'each row of a table has as many cells as its head' awk '
    function cells(line) { gsub(/\\\|/, "", line); return gsub(/\|/, "", line) }
    /^\|/ { n = cells($0); if (head == 0) head = n; if (n != head) { print; bad = 1 } } !/^\|/ { head = 0 } END { exit bad }' $page
check 'no name is markup in the picture' test -z "$(grep -o '<script>alert' $dir/phase2_1tok.svg)"
check 'the index links all' test "$(grep -oE '\]\(phase2_(1|10)tok\.(svg|md|json)\)' $dir/README.md | sort -u | wc -l)" -eq 6
mapfile -t commands < <(grep -oE '`bn-flamegraph [^`]*`' $dir/README.md | tr -d '`' | sort -u)
check 'the index names commands' test "${#commands[@]}" -ge 2
for command in "${commands[@]}"; do
    command=${command//OLD.json/$dir/phase2_1tok.json}
    command=${command//NEW.json/$dir/phase2_1tok.json}
    command=${command//FILE.json/$dir/phase2_1tok.json}
    read -ra words <<<"$command"
    status 0 "it can be run: $command" "$bn" "${words[@]:1}"
done
says 0 'a comparison has times as people read them' '^before +phase2_1tok.json: 3 runs, [0-9]+ samples, 97[0-9.]+ ms each$' "$bn" diff $dir/phase2_1tok.json --vs $dir/phase2_10tok.json
sed 's/"isa":"avx2"/"isa":"avx512vnni"/; s/"key":"k1"/"key":"k2"/; s/aaaabbbb/aaaabbbc/g' $dir/phase2_1tok.json >unlike.json
warns='warning: before and after are not recordings of the same thing; they differ in: machine, model, instruction set$'
says 0 'a comparison of other things warns, and names them' "$warns" "$bn" diff $dir/phase2_1tok.json --vs unlike.json
says 0 'files of one side are checked, too' "$dir/phase2_1tok.json and unlike.json are not.* machine, model, instruction set, program$" "$bn" diff $dir/phase2_1tok.json unlike.json --vs $dir/phase2_1tok.json
sed 's/"binary_sha256":"aaaa/"binary_sha256":"cccc/' $dir/phase2_1tok.json >built.json
check 'the program was replaced' grep -q '"cccc' built.json
check 'another program is what a comparison is for' test -z "$("$bn" diff $dir/phase2_1tok.json --vs built.json 2>&1 >/dev/null)"
check 'no earlier recording: the page says so' grep -q 'Not compared: `there is no earlier recording' $page
check 'no timing document: the page says so' grep -q 'phase2_timing_i2s.md`: not compared: `' $page
cp -r $dir first
status 0 'again' baseline
check 'the same recordings give the same bytes' diff -r first $dir

# ---- a busy machine ----
sed 's/"sampler":/"others":{"wall_ns":1e9,"cpus":2,"used_cpus":1.25,"stolen_cpus":0},"sampler":/' $dir/phase2_1tok.json >busy.json
says 0 'a recording next to other work says so in its table' '^busy machine: other processes used 1.2 of 2 CPUs during the run$' \
    "$bn" text busy.json
says 0 'and below its title' 'busy machine: other processes used 1.2 of 2 CPUs' "$bn" render busy.json -o -
lacks 'one on an idle machine does not' 'busy machine' "$bn" text $dir/phase2_1tok.json

# ---- beside the timing document ----
timing() { # MODEL ISA
    cat >timing.md <<END
| measured | 2026-11-19T00:00:00Z |
|---|---|
| machine | AMD, 2 CPUs, Linux 6, virtual: true; box |
| model | m.gguf, sha256 $1 |
| kernels | $2, threads: 1 |

| | median | +- | least | most | tokens |
|---|---:|---:|---:|---:|---:|
| embed | 0.07 | 0.01 | 0.06 | 0.37 | 127 |
| layers | 53.58 | 2.92 | 46.43 | 112.61 | 127 |
| last norm | 0.07 | 0.00 | 0.06 | 0.17 | 127 |
| head | 12.25 | 0.34 | 11.31 | 73.04 | 127 |
| sample | 0.71 | 0.03 | 0.61 | 4.02 | 127 |
END
}
timing "$digest" avx2
status 0 'with a timing document' baseline --timing timing.md
check 'layers: there and here' grep -qF '| layers and last norm | 53.65 us | 53.65 us |' $page
sed -i 's/^| head | 12.25/| bounds of the head | 10.25 | 0.01 | 9.9 | 12.1 | 127 |\n| head | 2.00/' timing.md
status 0 'with one of a head that is screened' baseline --timing timing.md
check 'the bounds belong to the head' grep -qF '| head | 12.25 us | 12.25 us |' $page
timing "$digest" avx2
mv timing.md timing-m.md
timing "${digest/a/b}" avx2
status 0 'with one of each model' baseline --timing timing.md
check 'that of the same model counts' grep -qF 'timing-m.md`: time of one token in decoding.' $page
rm timing-m.md
for other in "model ${digest/a/b} avx2" "instruction_set $digest avx512vbmi"; do
    read -ra words <<<"$other"
    timing "${words[@]:1}"
    status 0 "with one of another ${words[0]}" baseline --timing timing.md
    check 'it is not compared, and why' grep -q "not compared: \`it was measured with another ${words[0]/_/ }\`" $page
done
timing "$digest" avx2
sed -i '/^| head/d' timing.md
status 0 'with one that lacks a row' baseline --timing timing.md
check 'a missing row is a dash' grep -qF '| head | - | 12.25 us |' $page

# ---- the archive ----
status 0 'kept' baseline --archive
check 'by date and commit' test -s $dir/archives/2026-11-20-111111111111/phase2_10tok.svg
entries() { find $dir/archives -mindepth 1 -maxdepth 1 | wc -l; }
status 0 'kept again' baseline --archive
check 'the same is kept once' equal "$(entries)" 1
both 2026-11-21T10:00:00Z $new true "$digest" 500 450
status 0 'another one' baseline --archive
check 'one that is not of a commit is marked' test -d $dir/archives/2026-11-21-222222222222-dirty
check 'two are kept' equal "$(entries)" 2
check 'the page has what changed' grep -qE '^ +8[0-9]\.[0-9]+ +5[0-9]\.[0-9]+ +-[0-9.]+\*.*ternary_gemv_avx2$' $page
check 'and says it in a sentence' grep -qE '^- Since 2026-11-20-111111111111, the largest significant change is .*, from [0-9.]+ % to [0-9.]+ % of the time' $page
both 2026-11-21T10:00:01Z $new true "$digest" 505 445
status 0 'another one of the same day and commit' baseline --archive
check 'has a folder of its own' test -d $dir/archives/2026-11-21-222222222222-dirty-2
check 'chance is not a change' grep -q '^    NO CHANGE FOUND$' $page
both 2026-11-22T10:00:00Z $new true "${digest/a/c}" 505 445
status 0 'one of another model' baseline --archive
check 'is not compared with them, and why' grep -q 'Not compared: `2026-11-20-111111111111: another model`' $page

# ---- the timeline ----
says 0 'the timeline' "^$tmp/work/$dir/timeline.md$" "$script" --timeline - $dir
changed() { awk '/^## /{ name = $2 } /^### /{ at = $2 } /^ .*\* .*ternary_gemv_avx2$/ && name == "phase2_1tok" { print at }' $dir/timeline.md; }
check 'marks what changed, and nothing else' equal "$(changed)" '2026-11-21-222222222222-dirty'
check 'what chance explains does not count' grep -q '^    nothing changed significantly$' $dir/timeline.md
check 'says what is not compared' grep -q '^Not compared with 2026-11-21-222222222222-dirty-2: another model\.$' $dir/timeline.md
check 'has the classes of each' equal "$(grep -c '^Matrix multiplication takes ' $dir/timeline.md)" 8
status 3 'an empty archive' "$script" --timeline - "$tmp/home"
sed -i 's/"nodes":/"nods":/g' $dir/archives/2026-11-20-111111111111/phase2_1tok.json
status 4 'a recording that is malformed' "$script" --timeline - $dir
rm -rf $dir/archives/2026-11-2[12]*
status 4 'and the page sees it too' baseline --archive

# ---- a failure leaves the old files ----
rm -rf $dir && cp -r first $dir
both 2026-11-23T10:00:00Z $new false "$digest" 700 250
printf '{' >$dir/phase2_10tok.json
cp -r $dir second
status 4 'one of the two recordings is malformed' baseline --archive
check 'nothing was touched' diff -r second $dir
both 2026-11-23T10:00:00Z $new false "$digest" 700 250
rm $dir/phase2_10tok.svg && mkdir -p $dir/phase2_10tok.svg/in
rm -rf second && cp -r $dir second
status 8 'one of the files cannot be written' baseline
check 'nothing was touched there either' diff -r second $dir

# ---- which model; recording is refused before it begins ----
says 2 'a sampler that there is not' "--sampler: 'none'" "$script" --sampler none - refused
says 2 'by the variable, too' "BITNET_FLAMEGRAPH_TOOL: 'none' is not one of auto" env BITNET_FLAMEGRAPH_TOOL=none "$script" - refused
says 2 'not deterministic is not possible' "BITNET_DETERMINISTIC: '0'" env BITNET_DETERMINISTIC=0 "$script" - refused
says 2 'an invalid seed' 'BITNET_SEED' env BITNET_SEED=x "$script" - refused
check 'nothing is written' equal "$(ls -A refused)" ''
finds() { says 2 "$1" "^phase2-flamegraph: model: $2" "$script" --sampler none "${@:3}"; }
finds 'without any, the built-in one' 'built-in$' - refused
model=$root/fixtures/nano-bitnet-b1.58-i2_s-42.gguf
mkdir -p models/microsoft-bitnet-b1.58-2B-4T-gguf
for place in ./ggml-model-i2_s.gguf models/ggml-model-i2_s.gguf models/microsoft-bitnet-b1.58-2B-4T-gguf/ggml-model-i2_s.gguf; do
    cp "$model" $place
    finds "before it, $place" "$place\$" - refused
done
cp "$model" mine.gguf && cp "$model" named.gguf
finds 'before all of them, --model' 'mine\.gguf$' --model mine.gguf - refused
export BN_MODEL=mine.gguf
finds 'or its variable' 'mine\.gguf$' - refused
finds 'and before that, the argument' 'named\.gguf$' named.gguf refused
unset BN_MODEL
says 3 'a model that is not there' 'bn-download' "$script" none.gguf refused
: >file
says 8 'a folder that cannot be made' 'cannot create directory' "$script" mine.gguf file/graphs
finds 'a tokenizer between model and folder is not used' 'mine\.gguf$' mine.gguf tokenizer.json refused
check 'and it says so' equal "$(grep -c 'warning: ignoring tokenizer.json' "$tmp/tap")" 1
echo '{}' >tokenizer.json
says 0 'when recordings are drawn again, too' 'warning: ignoring tokenizer.json' "$script" --redraw mine.gguf tokenizer.json first

# ---- the doctor names what it judges, and no more ----
"$bn" doctor -q >doctor.txt 2>/dev/null
check 'nothing that is always well' test -z "$(grep -E '(RLIMIT_MEMLOCK|capabilities|container|yama)' doctor.txt)"

# ---- recorded in truth ----
if "$bn" doctor -q >/dev/null 2>&1; then
    # Until there are enough samples for percentages: a busy machine gives few samples per second.
    record() {
        local seconds samples
        for seconds in 0.4 2 10 50; do
            "$script" --force --runs 2 --duration $seconds "$@" || return
            samples=$(sed -nE 's/^\| samples \| ([0-9]+).*/\1/p' real/phase2_1tok.md)
            [ "${samples:-0}" -lt 100 ] || return 0
        done
        return 1
    }
    rm -rf models ggml-model-i2_s.gguf
    status 0 'two recordings of the model that is carried' record - real
    check 'the files of the workflow' equal "$(cd real && echo *)" 'README.md phase2_10tok.json phase2_10tok.md phase2_10tok.svg phase2_1tok.json phase2_1tok.md phase2_1tok.svg'
    for f in phase2_1tok phase2_10tok; do
        check "$f: the picture is XML" xmllint --noout "real/$f.svg"
        check "$f: required facts are known" test -z "$(grep -E '^\| (recorded|samples|model|sha256 of the model|tokenizer|prompt|tokens generated|seed|threads|instruction set|version|compiler|flags|sampler|lost samples) \| not known' "real/$f.md")"
        check "$f: greedy, and the same tokens each time" grep -qF "| sha256 of the token ids | \`" "real/$f.md"
        check "$f: matrix multiplication is a class of it" grep -q '^| matrix multiplication |' "real/$f.md"
        check "$f: facts have names, not members" test -z "$(grep -E '^\| .*_(ns|milli|bytes) \|' "real/$f.md")"
        check "$f: what it shows, in five sentences" equal "$(sed -n '/^## What this shows/,/^## What was/p' "real/$f.md" | grep -c '^- ')" 5
        check "$f: the time and the limit are measured" grep -qE '^- .*reads [0-9.]+ .?i?B of weights and cache in [0-9.]+ [mun]?s, [0-9.]+ .?B/s, which is [0-9.]+ % of the [0-9.]+ .B/s measured on this machine\.$' "real/$f.md"
        check "$f: what other processes used is known" grep -qE '^\| CPUs used by other processes \| [0-9.e-]+ \|$' "real/$f.md"
        check "$f: they are below the picture" grep -q '>Matrix multiplication takes ' "real/$f.svg"
        share=$(sed -nE 's/^\| matrix multiplication \| ([0-9.]+) % \|$/\1/p' "real/$f.md")
        check "$f: page and picture have the same shares" grep -q ">matrix multiplication $share %<" "real/$f.svg"
        check "$f: bricks were measured" grep -qE '^ +[0-9.]+ [mun]?s +[0-9.]+ +[0-9.]+ +UpProjection$' "real/$f.md"
    done
    check 'the index has the time of a pass and its share of the bandwidth' equal "$(grep -cE '^\| \[phase2_.*\| [0-9.]+ [mun]?s \| [0-9.]+ % \|' real/README.md)" 2
    cp -r real kept
    head -c 5000 "$model" >cut.gguf
    status 4 'a model that is cut off' record cut.gguf real
    check 'left the old files' diff -r kept real
    status 0 'recorded files are drawn anew' "$script" --redraw - real
    check 'to the same bytes' diff -r kept real

    # ---- configurations ----
    nano=$root/fixtures/nano-bitnet-b1.58-i2_s-42.gguf
    cp "$nano" other.gguf
    many() { "$script" --runs 2 --duration 0.1 -m "$nano" "$@" - many; }
    names() { (cd many && echo *.json); }
    status 0 'several configurations' many --isa ref,auto -t 1,2
    check 'have a file each, and the default one has the plain name' equal "$(names)" \
        'phase2_10tok-auto-t2.json phase2_10tok-auto.json phase2_10tok-t2.json phase2_10tok.json phase2_1tok-auto-t2.json phase2_1tok-auto.json phase2_1tok-t2.json phase2_1tok.json'
    check 'a file has what its name says' grep -q '| threads | 2 |' many/phase2_1tok-t2.md
    check 'and the default one has the first of each list' grep -q '| instruction set | `ref` |' many/phase2_1tok.md
    check 'the index has all, the default configuration first' equal "$(grep -oE '^\| \[[^]]*' many/README.md | head -3 | tr -d '|[ ' | xargs)" 'phase2_1tok phase2_10tok phase2_1tok-auto'
    check 'each once' equal "$(grep -c '^| \[phase2_' many/README.md)" 8
    check 'their fingerprints differ' equal "$(grep -oE '`[0-9a-f]{12}` \|$' many/README.md | sort -u | wc -l)" 8
    cp -r many kept_many
    RAYON_NUM_THREADS=2 "$script" --runs 1 --duration 0.1 -m "$nano" - threads >/dev/null 2>&1
    check 'one thread, unless RAYON_NUM_THREADS says otherwise' equal \
        "$(grep -h '^| threads | [0-9]* |$' real/phase2_1tok.md threads/phase2_1tok.md | tr -d '\n')" '| threads | 1 || threads | 2 |'
    says 0 'again: they are there' 'phase2_1tok-t2 is there with the same fingerprint; --force' many --isa ref,auto -t 1,2
    check 'so nothing is recorded' test -z "$(grep 'recording phase2' "$tmp/tap")"
    check 'and nothing changes' diff -r kept_many many
    says 0 'a model more' 'recording phase2_1tok-other$' many --isa ref -m other.gguf
    check 'is recorded alone' equal "$(grep -c 'recording phase2' "$tmp/tap")" 2
    check 'next to what was there' equal "$(grep -c '^| \[phase2_' many/README.md)" 10
    says 0 'with --force' 'recording phase2_1tok$' many --force --isa ref
    says 0 'another period is another recording' 'recording phase2_1tok$' many --isa ref -F 499
    says 0 'all of them are drawn again' 'many/phase2_10tok-auto-t2.svg' "$script" --redraw - many
    says 2 'a model twice' 'two have the name nano-bitnet' many -m "$nano"
    says 2 'an instruction set twice' 'two have the name phase2_10*tok' many --isa ref,ref
    status 2 'an unknown instruction set' many --isa ref,z80
    says 3 'a model that is not there' 'none.gguf: no such model' many -m none.gguf
    check 'ends the command before anything is recorded' test -z "$(grep 'recording phase2' "$tmp/tap")"
else
    skip 'recording' 'nothing samples here'
fi

# ---- the program ----
says 0 'help' 'BITNET_SKIP_BUILD' "$script" --help
says 2 'an unknown option' "unknown option '--nothing'" "$script" --nothing 1
says 3 'nothing is built' 'does not exist' env OUT="$tmp/none" "$script"
for tool in samply cargo-flamegraph perf; do
    says 0 "$tool is not needed" "BITNET_FLAMEGRAPH_TOOL=$tool" env BITNET_FLAMEGRAPH_TOOL=$tool "$script" --redraw - first
done
