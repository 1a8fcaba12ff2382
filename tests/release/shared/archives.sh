# shellcheck shell=bash disable=SC2034 # those that source it use the version
# Sourced after tap.sh by tests of the static programs and of the images of them: $version, and $pids, programs that are ended with
# the test. Variables of the user that programs obey are unset.
#   needs_root TITLE     skips the test where it cannot run: as another user, on another processor
version=$(packaging/version.sh)
pids=()
finish() { [ ${#pids[@]} -eq 0 ] || kill -- "${pids[@]}" 2>/dev/null; tap_end; }
trap finish EXIT
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(BN_ISA|HF_|CURL_CA|SSL_CERT|MAKE|MFLAGS)|_proxy$|_PROXY$')
needs_root() { if [ "$(id -u)" -ne 0 ] || [ "$(uname -m)" != x86_64 ]; then skip "$1" 'needs root, on x86-64' && exit; fi; }
