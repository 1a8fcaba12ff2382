#!/usr/bin/env bash
# bn-run inspect --judge: no fixture looks damaged; every fault that is planted into one is named with its tensor. TAP on
# standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build/gcc}
# shellcheck source=tests/tap.sh
. tests/tap.sh
judge() { "$out/bn-run" inspect --judge -m "$@" >"$tmp/judged" 2>"$tmp/err"; }

# ---- nothing to find ----
for model in fixtures/*.gguf; do
    check "nothing in ${model#fixtures/}" judge "$model"
done
# gen ARGUMENTS...: the path of a model
gen() {
    rm -rf "$tmp/gen"
    "$out/bn-fixtures" gen -o "$tmp/gen" "$@" >"$tmp/made" || return
    awk '{ print $2 }' "$tmp/made"
}
while read -r arguments; do
    # shellcheck disable=SC2086
    check "nothing in gen $arguments" judge "$(gen $arguments)"
done <<'END'
--size deep --zeros 0.9
--size tiny --zeros 0.05 --format tq1_0
--size tiny --idle 90
--size deep --arch llama --format f16
--size deep --arch qwen3 --format pq2_0
--size small
END

# ---- faults ----
cat >"$tmp/plant.py" <<'END'
"""plant.py BN_RUN FROM TO TENSOR FAULT...: a copy of a model with a fault in one tensor."""
import json, random, struct, subprocess, sys
import array
run, source, target, name, fault, *rest = sys.argv[1:]
text = subprocess.run([run, "inspect", "--json", "-m", source], capture_output=True, text=True).stdout
t = next(t for t in json.loads(text)["tensors"] if t["name"] == name)
data = bytearray(open(source, "rb").read())
at, n = t["offset"], t["bytes"]
codes = {"I2_S": (0, n - 32, n), "TQ2_0": (0, 64, 66), "TQ1_0": (0, 52, 54), "Q2_0": (2, 18, 18), "PQ2_0": (2, 34, 34), "PTQ1_0": (0, 26, 28)}
def blocks(): # of codes, and where a block's scale is
    first, end, size = codes[t["type"]]
    for b in range(at, at + n, size):
        yield b + first, b + end, b if first else b + end
def fill(two_bits, five, four): # one value in all weights; bytes of five and of four digits to base 3
    for begin, end, _ in blocks():
        data[begin:end] = bytes([two_bits]) * (end - begin)
        if t["type"] == "TQ1_0": data[begin:end] = bytes([five]) * 48 + bytes([four]) * 4
        if t["type"] == "PTQ1_0": data[begin:end] = bytes([five]) * 24 + bytes([four]) * 2
def floats(change):
    form, size = {"F32": ("<f", 4), "F16": ("<e", 2)}[t["type"]]
    for i in range(at, at + n, size):
        struct.pack_into(form, data, i, change(struct.unpack_from(form, data, i)[0]))
if fault == "zero": fill(0x55, 128, 127)
elif fault == "plus": fill(0xAA, 255, 253)
elif fault == "sparse": # nine of ten weights are zero
    random.seed(1)
    for begin, end, _ in blocks():
        data[begin:end] = bytes(random.choice([0x55] * 9 + [0x15]) for _ in range(end - begin))
elif fault == "page": data[at + 64:at + 64 + 4096] = bytes(4096)
elif fault == "scale": struct.pack_into("<f", data, at + n - 32, float(rest[0]))
elif fault == "half": struct.pack_into("<H", data, next(blocks())[2], int(rest[0], 16))
elif fault == "times": floats(lambda x: x * float(rest[0]))
elif fault == "one": struct.pack_into("<f", data, at, float(rest[0]))
elif fault == "halfword": struct.pack_into("<H", data, at, int(rest[0], 16))
elif fault.startswith("expert"): # of TQ2_0: its weights, or the exponents of its scales
    begin = at + n // t["shape"][2] * int(rest[0])
    for b in range(begin, begin + n // t["shape"][2], 66):
        if fault == "expert": data[b:b + 64] = bytes([0x55]) * 64
        else: data[b + 65] += 7 << 2
elif fault == "bytes": data[at + int(rest[0]):at + int(rest[0]) + int(rest[1])] = bytes(int(rest[1]))
open(target, "wb").write(data)
END
# named TITLE FROM TENSOR WHAT FAULT...: the fault is named with its tensor, and nothing else is
named() {
    local title=$1 from=$2 tensor=$3 what=$4
    shift 4
    if ! python3 "$tmp/plant.py" "$out/bn-run" "$from" "$tmp/bad.gguf" "${tensor%\[*}" "$@"; then not_ok "$title" "not planted"; return; fi
    judge "$tmp/bad.gguf"
    local status=$?
    if [ $status -eq 1 ] && grep -qF "$tensor" "$tmp/judged" && grep -qF "$what" "$tmp/judged" && grep -q '^1 of [0-9]* tensors look damaged$' "$tmp/judged"; then
        ok "$title"
    else
        not_ok "$title" "status $status" "$(cat "$tmp/judged" "$tmp/err")"
    fi
}
nano=fixtures/nano-bitnet-b1.58-i2_s-42.gguf built_in=fixtures/built-in-i2_s.gguf six=fixtures/shakespeare-5m-i2_s.gguf
f16=fixtures/nano-qwen3-q2_0-v331-f16embd-42.gguf q2=fixtures/nano-qwen3-q2_0-v331-yarn-tied-42.gguf
for from in $nano $q2 fixtures/micro-llama-tq1_0-v331-group256-tied-42.gguf fixtures/micro-llama-tq2_0-v331-group256-tied-42.gguf \
    fixtures/nano-qwen3-pq2_0-v331-yarn-tied-42.gguf fixtures/nano-qwen3-ptq1_0-v331-yarn-tied-42.gguf; do
    named "all zero: ${from#*/}" "$from" blk.0.attn_q.weight 'share of zeros' zero
    named "all +1: ${from#*/}" "$from" blk.0.attn_q.weight 'share of +1 among -1 and +1' plus
done
named 'a scale of 1e6' "$nano" blk.0.ffn_up.weight scale scale 1e6
for scale in 0 -1 nan inf; do
    named "a scale of $scale" "$nano" blk.0.ffn_up.weight 'invalid scales' scale $scale
done
named 'a scale that is 100 times that of the other layers' "$six" blk.3.attn_k.weight scale scale 4.3
named 'a scale that is a hundredth of it' "$six" blk.3.attn_k.weight scale scale 4.3e-4
named 'nine of ten weights zero, unlike the other layers' "$six" blk.2.ffn_gate.weight 'share of zeros' sparse
named 'a lost page' "$six" blk.5.ffn_down.weight 'equal weights in a row' page
for half in 7c00 fe01 8401 0000; do
    named "the scale $half of one group" "$q2" blk.0.attn_v.weight 'invalid scales' half $half
done
named 'a scale of a group with a wrong exponent' "$q2" blk.0.attn_v.weight 'largest scale of a group' half 7b00
named 'gammas of 1e-4' "$built_in" blk.4.ffn_norm.weight 'root mean square' times 1e-4
named 'gammas of 1e-7 without neighbours' "$nano" output_norm.weight 'root mean square' times 1e-7
named 'gammas that are zero' "$nano" blk.0.attn_norm.weight 'root mean square' times 0
named 'some gammas that are zero' "$built_in" blk.4.ffn_norm.weight 'share of zeros' bytes 0 64
named 'gammas with the other sign' "$nano" blk.0.attn_norm.weight 'share of positive values' times -1
named 'a gamma that is not a number' "$nano" blk.0.attn_norm.weight 'not finite' one nan
named 'an infinite weight of the embedding' "$f16" token_embd.weight 'not finite' halfword 7c00
named 'one expert of zeros' fixtures/duo-maple-tq2_0-v331-42.gguf 'blk.1.ffn_up_exps.weight[4]' 'share of zeros' expert 4
named 'one expert whose scales are 128 times those of the others' fixtures/duo-maple-tq2_0-v331-42.gguf 'blk.1.ffn_up_exps.weight[4]' scale expert-scales 4

# ---- what is not a fault, and how findings are written ----
python3 "$tmp/plant.py" "$out/bn-run" $f16 "$tmp/rows.gguf" token_embd.weight bytes 2560 768
says 0 'rows of tokens that nothing was trained for are counted' '^3 all-zero rows of embedding and head' "$out/bn-run" inspect --judge -m "$tmp/rows.gguf"
python3 "$tmp/plant.py" "$out/bn-run" $six "$tmp/two.gguf" blk.3.attn_k.weight scale 4.3
python3 "$tmp/plant.py" "$out/bn-run" "$tmp/two.gguf" "$tmp/bad.gguf" blk.1.attn_norm.weight one nan
judge "$tmp/bad.gguf" --json
check 'JSON has the findings in the order of the file' python3 - "$tmp/judged" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
first, second = sorted(d["findings"], key=lambda f: f["tensor"])
assert d["schema"] == "bn.run/1" and d["tensors_damaged"] == 2 and d["tensors_judged"] == 68 and d["zero_rows"] == 0, d
assert first == {"tensor": "blk.1.attn_norm.weight", "what": "values that are not finite", "value": 1, "lowest": 0, "highest": 0}, first
assert second["tensor"] == "blk.3.attn_k.weight" and abs(second["value"] - 4.3) < 1e-6 and 0 < second["lowest"] < 0.0438 < second["highest"] < 4, second
END
sed 's/bitnet-b1.58/xitnet-b1.58/g' "$tmp/bad.gguf" >"$tmp/unknown.gguf"
says 1 'a file of an unknown architecture' '^2 of 68 tensors look damaged' "$out/bn-run" inspect --judge -m "$tmp/unknown.gguf"
head -c 1000000 $six >"$tmp/cut.gguf"
status 4 'a file that is cut off is refused as before' "$out/bn-run" inspect --judge -m "$tmp/cut.gguf"
says 0 'the built-in model' '^0 of 68 tensors look damaged' "$out/bn-run" inspect --judge
