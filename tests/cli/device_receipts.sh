#!/usr/bin/env bash
# Receipts of runs on a device. First documents made by hand from the receipt of a CPU, each with one fault that its rule
# refuses; they need no device. Then real runs on the first device that `bn-run devices` lists. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset BN_MODEL BN_ISA BN_THREADS BN_DEVICE
verify=$bin/bn-verify-receipt

# refused RULES TITLE FILE ARGUMENTS...: exactly these rules fail, with commas; "-": none, and the exit status is 0
refused() {
    local rules=$1 title=$2 out got failed
    shift 2
    out=$("$verify" "$@" 2>&1 </dev/null)
    got=$?
    failed=$(sed -n 's/^FAIL  \([a-z0-9-]*\).*/\1/p' <<<"$out" | paste -sd, -)
    check "$title" equal "$got ${failed:--}" "$([ "$rules" = - ] && echo 0 || echo 1) $rules"
}
# forge RULES TITLE RECEIPT CHANGE ARGUMENTS...: after a change to the predicate p, sealed again
forge() {
    python3 tests/cli/forge_receipt.py "$3" "$4" >"$tmp/forged.json"
    refused "$1" "$2" "$tmp/forged.json" "${@:5}"
}

# ---- by hand ----

"$bin/bn-run" -q -p 'To be, or not' -n 8 --isa ref --repack never --receipt "$tmp/cpu.json" >"$tmp/cpu.txt"
refused - 'a receipt of a CPU, with nothing of a device' "$tmp/cpu.json"
# What the program of a GPU would have written: the same operations, under other names. The embedding stays on the CPU.
# shellcheck disable=SC2016 # code in Python
made='
def here(name): return name if "_to_f32_" in name else name.rsplit("_", 1)[0] + "_opencl"
p["backend"] = "opencl"
p["kernels"] = [here(k) for k in p["kernels"]]
for k in p["measurement"]["kernel_stats"]: k["name"] = here(k["name"])
p["device"] = {"id": "opencl:0", "type": "GPU", "name": "Some GPU", "vendor": "Some vendor", "platform": "Some platform",
    "driver": "1.2", "version": "OpenCL 3.0", "memory": 2**34, "program": "0" * 64}'
python3 tests/cli/forge_receipt.py "$tmp/cpu.json" "$made" >"$tmp/gpu.json"
refused - 'a receipt of a GPU' "$tmp/gpu.json"
refused - 'is one of a GPU' "$tmp/gpu.json" --require-gpu-kernels
refused - 'and replays on the CPU' "$tmp/gpu.json" --replay
refused - 'on other kernels too' "$tmp/gpu.json" --replay --isa ref --threads 1
refused - 'its kernels are quantised' "$tmp/gpu.json" --require-quantized-kernels
status 9 'no memory of the CPU shows that its speed is possible' "$verify" "$tmp/gpu.json" --validate-performance
echo '{"validate_performance": true, "bandwidth_bytes_per_s": 1000000000000}' >"$tmp/policy.json"
refused - 'a rate that is stated does' "$tmp/gpu.json" --policy "$tmp/policy.json"
says 0 'the verdict names the device' 'pass +device +GPU, Some GPU' "$verify" -v "$tmp/gpu.json"

while IFS='|' read -r rules title change; do
    [ -z "$rules" ] || forge "$rules" "$title" "$tmp/gpu.json" "$change"
done <<'END'
device|a device without a description|del p["device"]
fields,device|a description that is null|p["device"] = None
backend,device,kernels-known|a backend that there is not|p["backend"] = "OpenCL"
device,kernels-known,cpu-kernels|a GPU that computed nothing|p["backend"] = "cpu"
kernels-known,cpu-kernels|kernels of a device on the CPU|p["backend"] = "cpu"; del p["device"]
device|a type that there is not|p["device"]["type"] = "gpu"
fields,device|a number as a type|p["device"]["type"] = 1
device|an id that no option has|p["device"]["id"] = "opencl:"
device|an id of another kind|p["device"]["id"] = "cuda:0"
fields|a program without a digest|p["device"]["program"] = "1.0"
fields|a program that is not named|del p["device"]["program"]
fields|a name that is a number|p["device"]["name"] = 7
fields|a vendor without letters|p["device"]["vendor"] = ""
fields,device|memory as a text|p["device"]["memory"] = "16G"
device|memory that does not hold the weights|p["device"]["memory"] = 1000000
kernels-known|a kernel of the CPU among them|rename("add_opencl", "add_ref")
kernels-known,layer-work|a kernel that devices do not have|rename("add_opencl", "sub_opencl")
kernels-known|an embedding of a device|rename("f16_to_f32_ref", "f16_to_f32_opencl")
kernels-known|an embedding of another instruction set|rename("f16_to_f32_ref", "f16_to_f32_neon")
kernels-known|a fallback to another instruction set|p["resolved"]["fallbacks"] = [{"kernel": "add_opencl", "reason": "x"}]
device,kernels-known|ternary kernels of the CPU|rename("ternary_gemm_opencl", "ternary_gemm_ref"); rename("ternary_gemv_opencl", "ternary_gemv_ref")
kernel-time|a product that took no time|stat("ternary_gemv_opencl")["ns"] = 0
kernel-time|a head that took no time|stat("f16_gemm_opencl")["ns"] = 0
kernel-time|kernels that took longer than the run|stat("add_opencl")["ns"] = p["measurement"]["total_ns"] * 2
kernel-work|a token that was not computed|stat("ternary_gemv_opencl")["calls"] -= 28
kernel-work|columns that were skipped|k = stat("ternary_gemv_opencl"); p["measurement"]["work"]["skipped_columns"] = 2; k["ops"] -= 2 * p["model"]["n_embd"]
kernel-work|rows that were skipped|k = stat("ternary_gemv_opencl"); p["measurement"]["work"]["skipped_rows"] = 4; k["ops"] -= 4 * p["model"]["n_embd"]; k["bytes"] -= p["model"]["n_embd"]
kernel-work|weights that were read in part|stat("ternary_gemv_opencl")["bytes"] -= 1
kernel-work|a matrix that is counted twice|stat("ternary_gemv_opencl")["calls"] += 1
layer-work|a residual sum too many|stat("add_opencl")["ops"] += p["model"]["n_embd"]
attention-work|attention to fewer tokens|stat("attn_scores_opencl")["ops"] -= 1
attention-work|attention with too few calls|stat("attn_scores_opencl")["calls"] = stat("attn_values_opencl")["calls"] = 1
layer-work|a layer without its norm|stat("rmsnorm_opencl")["calls"] -= 1
layer-work|half of the residual sums|stat("add_opencl")["ops"] //= 2
head-work|a head that was screened|s = p["measurement"]["screen"]; s["full"] -= 1; s.update(screened=1, heads=1, rows=32)
head-work|rows that a grammar wanted|p["measurement"]["screen"]["again"] = 1
kernel-work,head-work,performance-physical|more bytes than any memory delivers|for k in "ternary_gemv", "ternary_gemm", "f16_gemm": stat(k + "_opencl")["bytes"] = 2**53 - 1
END

# Some kernels are fused with the next one, whose launch has the time; attention of all heads is one call of a layer.
forge - 'sums and norms without a launch of their own' "$tmp/gpu.json" 'stat("add_opencl")["ns"] = stat("rmsnorm_opencl")["ns"] = 0'
forge - 'one call of attention for each layer' "$tmp/gpu.json" \
    'n = p["measurement"]["work"]["passes"] * p["model"]["n_layer"]; stat("attn_scores_opencl")["calls"] = stat("attn_values_opencl")["calls"] = n'
forge - 'a clock that is a little fast' "$tmp/gpu.json" \
    'm = p["measurement"]; stat("add_opencl")["ns"] += m["total_ns"] + m["total_ns"] // 2000 - sum(k["ns"] for k in m["kernel_stats"])'
forge - 'a driver that does not tell its vendor' "$tmp/gpu.json" 'p["device"]["vendor"] = None'

# ---- the gate of a GPU ----

gate() { forge "$1" "$2" "$3" "$4" --require-gpu-kernels; }
refused gpu-kernels 'the CPU is no GPU' "$tmp/cpu.json" --require-gpu-kernels
gate gpu-kernels 'nor is a device of type CPU' "$tmp/gpu.json" 'p["device"]["type"] = "CPU"'
gate gpu-kernels 'nor an accelerator' "$tmp/gpu.json" 'p["device"]["type"] = "accelerator"'
gate device,gpu-kernels 'nor a device that is not described' "$tmp/gpu.json" 'del p["device"]'
gate device,gpu-kernels 'nor the CPU with the description of a GPU' "$tmp/cpu.json" \
    'p["device"] = {"id": "opencl:0", "type": "GPU", "name": "x", "vendor": "x", "platform": "x", "driver": "1", "version": "1", "memory": 2**34, "program": "0" * 64}'
python3 -c 'import json, sys; json.dump(json.load(open(sys.argv[1]))["predicate"], sys.stdout)' "$tmp/gpu.json" >"$tmp/bare.json"
refused bound-to-run,gpu-kernels 'what nothing binds is refused' "$tmp/bare.json" --require-gpu-kernels
says 1 'also when its kernels have names of a GPU' 'FAIL +bound-to-run' "$verify" --require-gpu-kernels fixtures/receipts/valid-gpu.json
sed 's/"Some GPU"/"A better GPU"/' "$tmp/gpu.json" >"$tmp/edited.json"
status 5 'another name of the device is an edit' "$verify" "$tmp/edited.json" --require-gpu-kernels
"$verify" keygen -o "$tmp/key" >/dev/null && "$verify" sign "$tmp/gpu.json" --key "$tmp/key" -o "$tmp/signed.json"
refused - 'a signed one passes' "$tmp/signed.json" --require-gpu-kernels --public-key "$tmp/key.pub" --replay
echo '{"require_gpu_kernels": true, "require": ["device"]}' >"$tmp/policy.json"
refused device,gpu-kernels 'a policy asks the same' "$tmp/cpu.json" --policy "$tmp/policy.json"
refused - 'and accepts the same' "$tmp/gpu.json" --policy "$tmp/policy.json"

# ---- real runs, where there is a device ----

export XDG_CACHE_HOME=$tmp/cache
if ! "$bin/bn-run" devices >"$tmp/devices" 2>&1 || ! grep -q '^opencl:0 .* nothing$' "$tmp/devices"; then
    skip 'receipts of a device' "$(head -n 1 "$tmp/devices")"
    exit
fi
type=$(awk '$1 == "opencl:0" { print $2 }' "$tmp/devices")
chain() { grep '"chain"' "$1"; }
run() { # RECEIPT ARGUMENTS...
    "$bin/bn-run" -q --receipt "$tmp/$1" "${@:2}" >"$tmp/${1%.json}.txt"
}
run dev.json -p 'To be, or not' -n 8 --device opencl
check 'the device gives the chain of the CPU' equal "$(chain "$tmp/dev.json")" "$(chain "$tmp/cpu.json")"
check 'and its text' cmp "$tmp/dev.txt" "$tmp/cpu.txt"
says 0 'its receipt names it' "^pass +device +$type, " "$verify" -v "$tmp/dev.json"
refused - 'and replays on the CPU' "$tmp/dev.json" --replay --isa ref --threads 1
refused - 'and on the device' "$tmp/dev.json" --replay --device opencl
refused - 'where the receipt of a CPU replays too' "$tmp/cpu.json" --replay --device opencl
refused - 'in any batches' "$tmp/cpu.json" --replay --device opencl:0 --prompt-batch 2
forge replay 'another token is found there' "$tmp/cpu.json" 'p["request"]["seed"] = 9; p["request"]["temperature"] = 1.5' \
    --replay --device opencl
if [ "$type" = GPU ]; then gpu=-; else gpu="gpu-kernels"; fi
refused "$gpu" "a device of type $type at the gate of a GPU" "$tmp/dev.json" --require-gpu-kernels
while read -r name options; do
    # shellcheck disable=SC2086 # options are words
    run more.json -p 'ROMEO: ROMEO: ROMEO:' --device opencl $options
    refused - "it replays: $name" "$tmp/more.json" --replay
done <<END
sampled -n 20 --temp 0.9 --seed 7 --batch 3
drafted -n 40 --speculate ngram --draft-always
saved -n 4 --prompt-cache $tmp/prompt
cached -n 4 --prompt-cache $tmp/prompt
END
printf 'root ::= [zqx]{12}' >"$tmp/rare.gbnf"
run rare.json -p 'ROMEO:' -n 20 --temp 1 --grammar "$tmp/rare.gbnf" --device opencl
refused - 'it replays: rare tokens that a grammar demands' "$tmp/rare.json" --replay

# Twenty generations at once, of a device and of the CPU: each receipt proves the other's bits.
python3 -c 'import json
for n in range(20): print(json.dumps({"prompt": "ROMEO: %d" % n, "n_predict": 3 + n % 5, "temperature": 1, "seed": n}))' >"$tmp/batch"
"$bin/bn-run" -q --batch-file "$tmp/batch" --receipts "$tmp/there" --device opencl >"$tmp/there.txt"
"$bin/bn-run" -q --batch-file "$tmp/batch" --receipts "$tmp/here" >"$tmp/here.txt"
check 'a batch of a device has the chains of the CPU' equal "$(cat "$tmp"/there/*.json | grep '"chain"')" "$(cat "$tmp"/here/*.json | grep '"chain"')"
says 0 'its receipts replay on the CPU' '20 verified' "$verify" --batch "$tmp/there" --replay
says 0 'and those of the CPU on the device' '20 verified' "$verify" --batch "$tmp/here" --replay --device opencl
for model in fixtures/nano-*-i2_s-42.gguf fixtures/micro-llama-tq1_0-*.gguf fixtures/pair-gemma3-*.gguf; do
    run model.json -m "$model" --tokens 158,53,204,99,250,145,40,191,86,237,132 -n 4 --batch 4 --device opencl
    refused - "${model##*/} replays" "$tmp/model.json" -m "$model" --replay
done

# The state of recurrent layers, too, comes from the device into a prompt cache.
kept() {
    "$bin/bn-run" -q -m fixtures/quad-qwen35-q2_0-v331-tied-42.gguf --template raw --ignore-end -p 'The quick brown fox' -n 8 \
        --temp 1 --prompt-cache "$tmp/kept-$1" --prompt-cache-all --device "$1"
}
check 'a recurrent model on the CPU saves its timeline' kept cpu
check 'and on the device' kept opencl
check 'the files are the same' cmp "$tmp/kept-cpu" "$tmp/kept-opencl"

# A baseline of a device is of another machine.
bench() { "$bin/bn-bench" run -q -p 8 -n 2 --reps 3 --json "$@" 2>"$tmp/err"; }
bench --device opencl >"$tmp/dev-bench.json"
bench >"$tmp/cpu-bench.json"
field() { python3 -c 'import json, sys; print(eval("d" + sys.argv[2], {"d": json.load(open(sys.argv[1]))}))' "$@"; }
check 'a document of bn-bench names the device' equal "$(field "$tmp/dev-bench.json" '["machine"]["device"]["type"]')" "$type"
check 'one of the CPU does not' equal "$(field "$tmp/cpu-bench.json" '["machine"].get("device")')" None
says 9 'and the two are not compared' 'another machine' "$bin/bn-bench" compare "$tmp/cpu-bench.json" "$tmp/dev-bench.json"

# ---- a server ----

# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
start --receipts "$tmp/served" --device opencl
ask /v1/completions '{"prompt": "ROMEO:", "max_tokens": 4, "temperature": 0.8, "seed": 7}' >"$tmp/code"
stop_server
check 'a server on the device writes receipts of it' grep -q '"backend": *"opencl"' "$tmp"/served/*.json
refused - 'which replay on the CPU' "$tmp"/served/*.json --replay -m "$model"
