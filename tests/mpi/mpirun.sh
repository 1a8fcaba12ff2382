# shellcheck shell=bash
# Sourced by scripts that need mpirun, after $out is set.
#
#   has_mpi             whether mpirun and the plug-in are there
#   mpi N COMMAND...    runs N ranks on this machine, also as root, without ssh, and on fewer cores than ranks. It ends after
#                       some minutes, whatever happens. MPI's own leaks do not count in builds with sanitizers.
# shellcheck disable=SC2154 # set by the script
has_mpi() { command -v mpirun >/dev/null && [ -x "$out/bn-mpi.so" ]; }
mpi() {
    local n=$1
    shift
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent='' OMPI_MCA_rmaps_base_oversubscribe=1 \
        OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none \
        timeout -k 5 300 mpirun -np "$n" "$@"
}
