#!/usr/bin/env bash
# Several processes by mpirun: the calls move the right bytes with 2 to 5 ranks, and a rank that ends, stops, hangs or fails
# ends the others with a message and an exit code.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/mpi/mpirun.sh
. tests/mpi/mpirun.sh
ranks=$out/tests/mpi/ranks

says 0 'a program that was started alone is one rank' 'good: 1 ranks' "$ranks" check
has_mpi || { skip 'ranks' 'mpirun or bn-mpi.so is missing'; exit; }
says 0 'mpirun -np 1 needs no plug-in' 'good: 1 ranks' mpi 1 "$ranks" check
cp "$ranks" "$tmp/lonely"
says 9 'mpirun without the plug-in is an error' 'bn-mpi.so is not installed' mpi 2 "$tmp/lonely" check
cp "$out/bn-mpi.so" "$tmp/"
for n in 2 3 5; do
    says 0 "$n ranks move the right bytes" "good: $n ranks" mpi $n "$tmp/lonely" check
done
mkdir -p "$tmp/usr/bin" "$tmp/usr/lib/bn"
cp "$ranks" "$tmp/usr/bin/"
mv "$tmp/bn-mpi.so" "$tmp/usr/lib/bn/"
says 0 'the installed plug-in is found' 'good: 2 ranks' mpi 2 "$tmp/usr/bin/ranks" check
ranks=$tmp/usr/bin/ranks
says 2 'a wrong time limit is refused' "BN_RANK_TIMEOUT is 'soon', expected seconds" env BN_RANK_TIMEOUT=soon \
    OMPI_COMM_WORLD_SIZE=2 "$ranks" check
says 137 'a rank that is killed ends the others' 'signal 9' mpi 3 "$ranks" die
says 6 'a rank that is stopped ends the others' 'rank 2 does not answer: no heartbeat for 2 seconds' \
    env BN_RANK_SILENCE=2 bash -c "$(declare -f mpi); mpi 3 '$ranks' stop"
says 6 'a rank that hangs ends the others' 'rank 2 is alive, but did not come to its next exchange in 1 seconds' \
    env BN_RANK_TIMEOUT=1 bash -c "$(declare -f mpi); mpi 3 '$ranks' hang"
says 5 'a rank that fails ends the others with its exit code' 'error: rank 2: a planted fault' mpi 3 "$ranks" fail
