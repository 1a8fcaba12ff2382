#!/usr/bin/env bash
# --device, bn-run devices and the rows of doctors: without a loader, without a driver, and with PoCL.
set -u
cd "$(dirname "$0")/../.." || exit 1
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/opencl/plant.sh
. tests/opencl/plant.sh
run=$out/bn-run
export XDG_CACHE_HOME=$tmp/cache POCL_CACHE_DIR=$tmp/pocl
mkdir -p "$tmp/empty" "$tmp/broken" "$POCL_CACHE_DIR"
: >"$tmp/broken/libOpenCL.so.1"
has_devices() { nm "$out/bn-run" | grep -q bn_cl_open; } # false in a build with OPENCL=0
lacks_opencl() { ! LD_DEBUG=files "$@" 2>&1 | grep -q libOpenCL; }
no_driver() { env OCL_ICD_VENDORS="$tmp/empty" "$@"; }
no_loader() { env LD_LIBRARY_PATH="$tmp/broken" "$@"; }

# ---- names ----

says 2 'an unknown device' "error: --device is 'gpu', expected cpu, opencl, opencl:N or auto" "$run" --device gpu -p x
says 2 'the hint names the list' "hint: 'bn-run devices' lists" "$run" --device cuda -p x
says 2 'of the environment too' "BN_DEVICE is 'cuda'" env BN_DEVICE=cuda "$run" -p x
for bad in opencl: opencl:x opencl:-1 opencl:12345 OPENCL ''; do
    says 2 "a bad name: '$bad'" 'expected cpu, opencl, opencl:N or auto' "$run" "--device=$bad" -p x
done
"$run" -q -p ROMEO: -n 8 >"$tmp/plain"
check 'cpu is the default' equal "$("$run" -q -p ROMEO: -n 8 --device cpu)" "$(cat "$tmp/plain")"
"$run" -q -p ROMEO: -n 2 --receipt "$tmp/receipt.json" >/dev/null
says 2 'verifiers have the option' 'expected cpu' "$out/bn-verify-receipt" --replay --device gpu "$tmp/receipt.json"
says 2 'and servers' 'expected cpu' "$out/bn-serve" --device gpu --port 0
says 2 'and benchmarks' 'expected cpu' "$out/bn-bench" run --device gpu

# ---- none ----

if has_devices; then
    says 0 'without a driver' 'cpu is the only device: no OpenCL device' no_driver "$run" devices
    says 0 'what to install' 'pocl-opencl-icd \(Debian\)' no_driver "$run" devices
    says 0 'without a loader' 'cpu is the only device: no OpenCL on this machine: .*libOpenCL.so.1' no_loader "$run" devices
    says 0 'what to install then' 'install ocl-icd-libopencl1 \(Debian\)' no_loader "$run" devices
    says 0 'as JSON' '"devices": \[\]' no_driver "$run" devices --json
    says 0 'with the reason' '"why_none": "no OpenCL device on this machine"' no_driver "$run" devices --json
    says 3 'a device is asked for: no driver' 'error: .*no OpenCL device on this machine' no_driver "$run" --device opencl -p x
    says 9 'or no loader' 'error: .*no OpenCL on this machine' no_loader "$run" --device opencl -p x
    check 'auto means the CPU then' equal "$(no_driver "$run" -q --device auto -p ROMEO: -n 8)" "$(cat "$tmp/plain")"
    check 'without a loader too' equal "$(no_loader "$run" -q --device auto -p ROMEO: -n 8)" "$(cat "$tmp/plain")"
    says 0 'a doctor notes it' '^note +opencl +no OpenCL device' no_driver "$out/bn-bench" doctor
    says 1 'and fails when it is required' '^FAIL +opencl ' no_driver "$out/bn-bench" doctor --require opencl
    check 'a program that needs none loads none' lacks_opencl "$run" -q -p x -n 1
else
    says 9 'a build without OpenCL refuses devices' 'error: .*this build has no OpenCL' "$run" --device opencl -p x
    says 0 'and says so' 'cpu is the only device: this build has no OpenCL' "$run" devices
fi

# ---- PoCL, or another one ----

if ! has_opencl; then
    skip 'a device' 'no driver of OpenCL (pocl-opencl-icd)'
    exit
fi
says 0 'a device is listed' '^opencl:0 +(CPU|GPU|accelerator) .*(nothing|[a-z])$' "$run" devices
says 0 'by the front door too' '^opencl:0 ' "$out/bn" run devices
"$run" devices --json >"$tmp/devices.json"
check 'the document has every fact' python3 - "$tmp/devices.json" <<'PY'
import json, sys
doc = json.load(open(sys.argv[1]))
assert doc["schema"] == "bn.run/1" and doc["why_none"] is None
for i, d in enumerate(doc["devices"]):
    assert d["id"] == f"opencl:{i}" and d["type"] in ("CPU", "GPU", "accelerator")
    assert d["memory"] >= d["largest_buffer"] > 0 and d["units"] > 0
    assert isinstance(d["binary64"], bool) and isinstance(d["dot"], bool)
    assert all(d[k] for k in ("name", "platform", "driver", "version"))
PY
check 'the tokens are those of the CPU' equal "$("$run" -q --device opencl:0 -p ROMEO: -n 8)" "$(cat "$tmp/plain")"
says 0 'the program says where it ran' 'tok/s, opencl:0 (CPU|GPU|accelerator); stopped' "$run" --device opencl -p ROMEO: -n 8
says 0 'the document too' '"id": "opencl:0"' "$run" --device opencl -p ROMEO: -n 8 --json
says 3 'a number that is too large' 'no device opencl:999; this machine has [0-9]+$' "$run" --device opencl:999 -p x
says 0 'the doctor has a row of it' '^(ok|note) +opencl:0 ' "$out/bn-bench" doctor
if ! plant_build; then
    skip 'devices that lack something' 'no compiler, or no headers of OpenCL'
    exit
fi
says 0 'what a device lacks is named' '^opencl:0 +.* fma, subnormal numbers$' planted PLANT_LACKS=1 "$run" devices
says 0 'in JSON too' '"lacks": "fma, subnormal numbers"' planted PLANT_LACKS=1 "$run" devices --json
says 0 'a GPU is a GPU' '^opencl:0 +GPU ' planted PLANT_TYPE=gpu "$run" devices
says 0 'the doctor sees it' '^ok +gpu +--device auto' planted PLANT_TYPE=gpu "$out/bn-bench" doctor --require gpu
says 1 'but not one that lacks something' '^FAIL +gpu ' planted PLANT_TYPE=gpu PLANT_LACKS=1 "$out/bn-bench" doctor --require gpu
says 9 'which is refused by name' 'opencl:0 lacks fma, subnormal numbers' planted PLANT_LACKS=1 "$run" --device opencl -p x
says 0 'dot products are promised' '^opencl:0 +.* yes +yes ' planted PLANT_DOT=1 "$run" devices
check 'and done without where the driver does not compile them' equal "$(planted PLANT_DOT=1 PLANT_TYPE=gpu "$run" -q --device opencl -p ROMEO: -n 8)" "$(cat "$tmp/plain")"
check 'auto does not take it' equal "$(planted PLANT_TYPE=gpu PLANT_LACKS=1 "$run" -q --device auto -p ROMEO: -n 8)" "$(cat "$tmp/plain")"

# ---- memory ----

says 10 'weights that do not fit' 'no memory on opencl:0: the weights take [0-9.]+ MiB.* the device has 1.9 MiB' \
    planted PLANT_MEMORY=2000000 "$run" --device opencl -p x
says 10 'a context that does not' 'opencl:0: no memory on the device for .*: [0-9.]+ MiB more, and [0-9.]+ MiB of 7.6 MiB are taken' \
    planted PLANT_MEMORY=8000000 "$run" --device opencl -p x

# ---- a device that is lost ----

touch "$tmp/lost"
says 8 'while a model is opened' 'opencl:0: the device was lost' planted PLANT_LOST="$tmp/lost" "$run" --device opencl -p x
rm "$tmp/lost"
mkfifo "$tmp/messages"
planted PLANT_LOST="$tmp/lost" "$run" chat -q --device opencl --json -n 4 <"$tmp/messages" >"$tmp/answers" 2>"$tmp/error" &
chat=$!
exec 9>"$tmp/messages"
echo '"To be"' >&9
check 'the first answer is there' wait_for grep -q '"text"' "$tmp/answers"
touch "$tmp/lost"
echo '"or not"' >&9
exec 9>&-
wait "$chat"
check 'lost between two answers: the exit code' equal $? 8
check 'and the message' grep -q 'opencl:0: the device was lost' "$tmp/error"
check 'the first answer is that of the CPU' equal "$(head -n 1 "$tmp/answers" | grep -o '"text": *"[^"]*"')" \
    "$(echo '"To be"' | "$run" chat -q --json -n 4 | head -n 1 | grep -o '"text": *"[^"]*"')"

# ---- a device that computes other bits: results are compared before a model is opened ----

for fault in 'FP_CONTRACT OFF=>FP_CONTRACT ON' '127.0f=>126.0f'; do
    says 5 "refused: $fault" 'the device opencl:0 computes [a-z0-9_]+ wrongly: value [0-9]+ is 0x' \
        planted XDG_CACHE_HOME="$tmp/empty" PLANT_EDIT="$fault" "$run" --device opencl -p x
done
