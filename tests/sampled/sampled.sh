# shellcheck shell=bash
# Sourced by the scripts that record programs whose stacks are known (tests/sampled).
#
# The number of samples in a given time depends on the machine: timers fire at the ticks of the operating system, and next
# to other programs at few of them. So recordings last until they have enough samples:
#
#   longer MS COMMAND...           runs COMMAND MS, again with more milliseconds while it exits with 1, up to a minute
#   enough N FILE COMMAND...       runs COMMAND, which writes FILE; exits with 1 when there are fewer than N samples in it
#   longer 300 enough 50 a.json bn-flamegraph record -o a.json -- split
longer() {
    local ms=$1 status
    shift
    while :; do
        "$@" "$ms"
        status=$?
        if [ $status -ne 1 ] || [ "$ms" -ge 60000 ]; then return $status; fi
        ms=$((3 * ms))
    done
}
enough() {
    local least=$1 file=$2 status n
    shift 2
    rm -f "$file"
    "$@"
    status=$?
    [ $status -eq 0 ] || return $status
    n=$(samples "$file")
    [ "${n:-0}" -ge "$least" ] || return 1
}
# samples FILE: how many the sampler reports
samples() { grep -oE '"sampler": ?\{.*' "$1" | grep -oE '"samples": ?[0-9]+' | head -n 1 | grep -oE '[0-9]+$'; }
