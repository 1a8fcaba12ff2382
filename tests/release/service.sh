#!/usr/bin/env bash
# The service of bn-serve, as systemd starts it: a bare Debian system boots in an emulator, answers a request with a receipt that
# replays, keeps the key that it was given, and refuses what its unit forbids. Needs root, qemu-system-x86_64, and the packages
# of BN_DEBS=DIR, or of build/release, where `make deb` puts them.
# shellcheck disable=SC2016,SC2317 # the inner shell expands what is quoted; functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/release/shared/root.sh
. tests/release/shared/root.sh
debs=${BN_DEBS:-build/release}
[ "$(dpkg --print-architecture)" = amd64 ] || { skip "the service" "its emulator is of amd64"; exit; }
[ "$(id -u)" -eq 0 ] || { skip "the service" "only root can enter a bare system"; exit; }
for tool in qemu-system-x86_64 mmdebstrap cpio; do
    command -v "$tool" >/dev/null || { skip "the service" "$tool is not installed"; exit; }
done
ls "$debs"/bn-serve_*.deb >/dev/null 2>&1 || check "packages are made" env -u MAKEFLAGS -u MFLAGS -u OUT make -s RELEASE="$debs" deb
base=${BN_DEB_BASE:-$tmp/base.tar}
[ -s "$base" ] || make_base "$base" || { not_ok "a bare system is made" "$(tail -n 5 "$tmp/mmdebstrap")"; exit; }

new_root
mkdir "$root/debs"
cp "$debs"/bn_*.deb "$debs"/bn-serve_*.deb "$root/debs"
packages() {
    enter apt-get update -qq && enter bash -c 'apt-get install -y -qq --no-install-recommends systemd-sysv iproute2 curl /debs/*.deb &&
        cd /tmp && apt-get download -qq $(apt-cache depends linux-image-cloud-amd64 | sed -n "s/.*Depends: //p" | head -n 1)' &&
        dpkg-deb --fsys-tarfile "$root"/tmp/linux-image*.deb | tar -x -C "$tmp" --wildcards './boot/vmlinuz*' &&
        enter apt-get clean && rm -rf "$root"/tmp/* "$root/debs" "$root"/var/lib/apt/lists/*
}
check "packages are installed" packages

# What runs inside; each line of its report is a verdict.
cat >"$root/root/try" <<'END'
verdict() { if "${@:2}" >/tmp/said 2>&1; then echo "pass $1"; else echo "fail $1: $(tr '\n' ' ' </tmp/said | tail -c 600)"; fi; }
healthy() { for _ in $(seq 600); do curl -sf "$@/health" && return; sleep 0.5; done; systemctl status --no-pager -n 30 bn-serve; return 1; }
answer() { curl -sS -D headers -o answer "$@/v1/completions" -H 'Content-Type: application/json' -d '{"prompt": "ROMEO:", "max_tokens": 4}' && grep -q 200 headers; }
receipt() {
    id=$(sed -n 's/^X-BN-Receipt: \([0-9a-f]*\).*/\1/p' headers)
    for _ in $(seq 60); do [ ! -e "/var/lib/bn-serve/receipts/$id.json" ] || break; sleep 0.5; done
    bn-verify-receipt --replay "/var/lib/bn-serve/receipts/$id.json"
}
refused() { code=$(curl -s -o /dev/null -w '%{http_code}' "$@"); echo "$code"; [ "$code" = 401 ]; }
unreachable() { ! curl -sS --max-time 10 "$@/health"; }
field() { grep -x "$1" "/proc/$(systemctl show -P MainPID bn-serve)/status"; }
user() { [ "$(stat -c %u "/proc/$(systemctl show -P MainPID bn-serve)")" -ge 61184 ]; }
drop_in() { mkdir -p /etc/systemd/system/bn-serve.service.d && printf '%s\n' '[Service]' "$@" >/etc/systemd/system/bn-serve.service.d/x.conf && systemctl daemon-reload && systemctl restart bn-serve; }
cd /root
url=http://127.0.0.1:8080
verdict 'the service starts' systemctl start bn-serve
verdict 'it is healthy' healthy $url
verdict 'it answers' answer $url
verdict 'its receipt is written, and replays' receipt
verdict 'it has a user of its own' user
verdict 'without capabilities' field 'CapEff:.0*'
verdict 'with a filter of system calls' field 'Seccomp:.2'
verdict 'the journal has no warning of its unit' sh -c '! journalctl -b -u init.scope -u bn-serve | grep -iE "unknown|ignoring|failed to"'
openssl rand -hex 24 >/etc/bn-serve.keys 2>/dev/null || tr -dc a-f0-9 </dev/urandom | head -c 48 >/etc/bn-serve.keys
chmod 600 /etc/bn-serve.keys
ip addr add 10.1.1.1/32 dev lo
echo 'BN_SERVE_OPTIONS=--host 10.1.1.1 --api-key-file /run/credentials/bn-serve.service/keys' >>/etc/default/bn-serve
verdict 'a drop-in with keys, and an address' drop_in LoadCredential=keys:/etc/bn-serve.keys
sleep 5
verdict 'which nothing reaches' unreachable http://10.1.1.1:8080
verdict 'unless it is allowed' drop_in LoadCredential=keys:/etc/bn-serve.keys IPAddressAllow=10.1.1.1
verdict 'then it is healthy' healthy http://10.1.1.1:8080
verdict 'and asks for the key' refused http://10.1.1.1:8080/v1/models
verdict 'which opens it' answer -H "Authorization: Bearer $(cat /etc/bn-serve.keys)" http://10.1.1.1:8080
verdict 'it stops' systemctl stop bn-serve
verdict 'without a failure' test "$(systemctl show -P Result bn-serve)" = success
END
cat >"$root/etc/systemd/system/try.service" <<'END'
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'bash /root/try >/dev/ttyS0 2>&1; echo done >/dev/ttyS0; systemctl poweroff --force --force'
END
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../try.service "$root/etc/systemd/system/multi-user.target.wants"
echo debian >"$root/etc/hostname"
: >"$root/etc/fstab"
(cd "$root" && find . -xdev | cpio -o -H newc --quiet | gzip -1) >"$tmp/initramfs"
timeout 1500 qemu-system-x86_64 -m 3G -smp 2 -cpu max -nographic -no-reboot -net none -kernel "$tmp"/boot/vmlinuz* -initrd "$tmp/initramfs" \
    -append 'no_timer_check rdinit=/sbin/init console=ttyS0 quiet systemd.show_status=0 systemd.mask=serial-getty@ttyS0.service' >"$tmp/console" 2>&1 </dev/null
tr -d '\r' <"$tmp/console" | grep -aE '^(pass|fail) ' >"$tmp/verdicts"
verdicts "$tmp/verdicts"
check "the system ran to its end" grep -qa '^done' "$tmp/console"
[ "$tap_failed" -eq 0 ] || tail -n 40 "$tmp/console" | sed 's/^/# /'
