# shellcheck shell=bash disable=SC2154 # tmp and base are those of the test
# Sourced after tap.sh by tests that need a bare Debian system: a folder, $root, which is entered by a chroot of its own
# namespaces of processes and mounts; nothing of it is seen from outside, and its processes end with the command.
#   make_base FILE        makes a bare system by mmdebstrap, from the mirror of this machine's apt
#   new_root              a new system in $root, from $base
#   enter COMMAND...      runs a command there as root, with an environment of its own
root=$tmp/root
make_base() { mmdebstrap --variant=minbase bookworm "$1" http://deb.debian.org/debian >"$tmp/mmdebstrap" 2>&1; }
new_root() {
    rm -rf --one-file-system "$root"
    mkdir "$root"
    tar -x -f "$base" -C "$root"
    cp /etc/resolv.conf "$root/etc"
}
enter() {
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare -mpf --kill-child sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' "$root" "$@" </dev/null
}
