#!/usr/bin/env bash
# bn-train under mpirun: the same files with any number of ranks, runs that go on with another number of them, and ranks that are
# killed, stopped or different.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/mpi/mpirun.sh
. tests/mpi/mpirun.sh
train=$out/bn-train
[ -x "$train" ] || { skip 'bn-train' 'it was not built: no OpenBLAS'; exit; }
has_mpi || { skip 'ranks' 'mpirun or bn-mpi.so is missing'; exit; }
member() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"; }
head -c 40000 fixtures/validation.txt >"$tmp/text"
tail -c 8000 fixtures/validation.txt >"$tmp/held-out"
"$train" tokenizer -q --text "$tmp/text" --vocab 400 -o "$tmp/v.gguf" >/dev/null
# Four micro-batches in a step.
options=(-q --text text --validation held-out --tokenizer v.gguf --layers 1 --width 128 --ffn 128 --context 32 --batch 256
    --micro-batch 64 --warm-up 2 --rate 0.004 --save-every 2 --validate-every 4)
cd "$tmp" || exit 1

# ---- the same bits ----
check 'a run on one rank' "$train" train "${options[@]}" --steps 12 -t 2 -o one
for n in 2 3 5; do
    check "$n ranks" mpi $n "$train" train "${options[@]}" --steps 12 -o "ranks$n"
    check 'give the same checkpoint' cmp one/checkpoint.bntrain "ranks$n/checkpoint.bntrain"
    check 'and model' cmp one/model.gguf "ranks$n/model.gguf"
done
check '2 ranks of 2 threads' mpi 2 "$train" train "${options[@]}" --steps 12 -t 2 -o threads
check 'give the same checkpoint' cmp one/checkpoint.bntrain threads/checkpoint.bntrain
says 0 'a warning when there is no work for a rank' 'a step has 4 micro-batches for 5 ranks' \
    mpi 5 "$train" train "${options[@]:1}" --steps 12 --until 1 -o warned
check 'a run on 3 ranks that stops' mpi 3 "$train" train "${options[@]}" --steps 12 --until 5 -o parts
check 'continues on 2' mpi 2 "$train" resume -q --until 9 -o parts
check 'and ends on one' "$train" resume -q -o parts
check 'with the same checkpoint' cmp one/checkpoint.bntrain parts/checkpoint.bntrain
mkdir elsewhere
check 'only rank 0 needs files' mpi 1 "$train" train "${options[@]}" --steps 12 -o files : \
    -np 1 -wdir "$tmp/elsewhere" "$train" train "${options[@]}" --steps 12 -o files
check 'it writes them all' equal "$(ls elsewhere; cmp one/checkpoint.bntrain files/checkpoint.bntrain)" ''

# ---- the record ----
check 'the record counts the ranks' equal "$(member ranks3/training.json 'd["ranks"]["count"]')" 3
check 'and the bytes that they send' member ranks3/training.json '1 / (d["ranks"]["bytes_sent_per_step"] > 100000)'
check 'and the load' member ranks3/training.json '1 / (d["ranks"]["load_balance"] >= 1 and 0 < d["ranks"]["exchange_share"] < 1)'
check 'a run without mpirun has one rank' equal "$(member one/training.json 'd["ranks"]')" "{'count': 1}"

# ---- faults ----
rank_of_run() { # number, folder
    local at
    for at in /proc/[0-9]*; do
        if [ "$(cat "$at/comm")" = bn-train ] && tr '\0' ' ' <"$at/cmdline" | grep -q " $2 \$" &&
            tr '\0' '\n' <"$at/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then basename "$at"; fi
    done 2>/dev/null
}
# Sends a signal to rank 1 of 3 after the first checkpoint; then the status of mpirun.
disturb() { # signal, folder
    mpi 3 "$train" train "${options[@]}" --steps 100000 -o "$tmp/$2" >"$tmp/$2.log" 2>&1 &
    wait_for test -e "$2/checkpoint.bntrain"
    kill "-$1" "$(rank_of_run 1 "$tmp/$2")"
    wait $!
    echo $?
}
check 'a rank that is killed ends the run' equal "$(disturb KILL killed)" 137
check 'a rank that is stopped ends the run' equal "$(BN_RANK_SILENCE=2 disturb STOP stopped)" 6
check 'with a message' grep -q 'error: rank 1 does not answer: no heartbeat for 2 seconds' stopped.log
steps() { "$train" resume -q --until "$1" -o "$2" >/dev/null; }
for run in killed stopped; do
    check "a checkpoint of the $run run is left" "$train" export -q $run -o x.gguf
    at=$(steps 1 $run; member $run/training.json 'd["result"]["step"]')
    check 'fewer ranks go on' mpi 2 "$train" resume -q --until $((at + 5)) -o $run
    "$train" train "${options[@]}" --steps 100000 --until $((at + 5)) -o undisturbed-$run >/dev/null
    check 'to the checkpoint of an undisturbed run' cmp $run/checkpoint.bntrain undisturbed-$run/checkpoint.bntrain
done
says 3 'an error of rank 0 is that of the run' 'bn-train: error: nothing-here: ' \
    mpi 3 "$train" train "${options[@]}" --text nothing-here -o x
if [ "$(uname -m)" = x86_64 ]; then
    says 9 'ranks whose products differ are refused' 'rank 1 computes products by core type Prescott, rank 0 by Nehalem' \
        mpi 1 -x OPENBLAS_CORETYPE=NEHALEM "$train" train "${options[@]}" --steps 3 -o x : \
        -np 1 -x OPENBLAS_CORETYPE=PRESCOTT "$train" train "${options[@]}" --steps 3 -o x
fi
