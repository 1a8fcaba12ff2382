# shellcheck shell=bash disable=SC2154 # out and tmp are of the test
# Sourced by tests of devices, after tests/tap.sh: has_opencl, which says whether this machine has a device of OpenCL, and
# planted VARIABLE=VALUE... COMMAND, which runs a command with devices that are changed: tests/opencl/planted.c.
has_opencl() { "$out/bn-run" devices --json | grep -q '"id": "opencl:0"'; }
plant_build() {
    local real
    [ ! -e "$tmp/plant/libOpenCL.so.1" ] || return 0
    real=$(LD_DEBUG=files "$out/bn-run" devices 2>&1 | sed -nE 's/.*calling init: (.*libOpenCL\.so\.1)$/\1/p' | head -n 1)
    [ -n "$real" ] || return 1
    mkdir -p "$tmp/plant"
    # The real one under another name of the same length, so that both can be loaded.
    LC_ALL=C sed 's/libOpenCL\.so\.1/libOpenCL.so.9/g' "$real" >"$tmp/plant/libOpenCL.so.9"
    "${CC:-gcc}" -std=c11 -Wall -Wextra -O1 -fPIC -shared -Wl,--no-as-needed,-soname,libOpenCL.so.1 -o "$tmp/plant/libOpenCL.so.1" \
        tests/opencl/planted.c "$tmp/plant/libOpenCL.so.9" -ldl
}
planted() { env LD_LIBRARY_PATH="$tmp/plant${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"; }
