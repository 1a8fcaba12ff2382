#!/usr/bin/env bash
# bn-flamegraph with hostile and impossible input: programs that write to the log of the sampler that records them, broken files that
# a program has mapped, control characters for terminals, outputs that cannot be written. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/sampled/sampled.sh
. tests/sampled/sampled.sh
cd "$tmp" || exit 1
bn=$bin/bn-flamegraph

# ---- what is asked for ----
"$bn" --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' >commands
check "there are commands" test "$(wc -l <commands)" -ge 10
check "each is there once" equal "$(sort commands | uniq -d)" ""
says 3 "a folder that is not there is named" 'none/x.json: cannot create: No such file or directory' "$bn" record -o none/x.json -- touch ran
mkdir folder.svg
: >file
says 8 "so is a folder in the place of a file" 'folder.svg: is a directory' "$bn" record -o folder.svg -- touch ran
says 3 "a file in the place of a folder" 'file/x.json: cannot create' "$bn" record -o file/x.json -- touch ran
says 3 "a folder that takes no file" '/proc/x.json: cannot create' "$bn" record -o /proc/x.json -- touch ran
says 2 "a table of turned stacks" 'not possible with the table' "$bn" record --callers -o x.txt -- touch ran
says 2 "a frequency of page faults" 'not possible with page faults' "$bn" record --kind faults -F 99 -o x.json -- touch ran
check "before the program is run" test ! -e ran
echo kept >kept.json
status 2 "what is there stays" "$bn" record -o kept.json -o x.foo -- touch ran
check "as it was" equal "$(cat kept.json)" kept
check "and nothing is left beside it" equal "$(echo kept.json*)" kept.json
printf 'main;a 5\n' >a.folded
mkdir -p out
"$bn" export -q -f json -o out/phase2_1tok.json a.folded
cp out/phase2_1tok.json out/phase2_10tok.json
mkdir out/README.md
says 8 "a folder in place of one of the files is named" 'README.md: is a directory' env OUT="$bin" BITNET_SKIP_BUILD=1 \
    "$root/ci/phase2-flamegraph.sh" --redraw - out
check "and none of the others is replaced" equal "$(cd out && echo *)" 'README.md phase2_10tok.json phase2_1tok.json'

# ---- texts that a terminal would obey ----
cat >left.json <<'END'
{"schema": "bn.stacks/1", "unit": "ns", "what": "cpu", "about": {"event": "\u001b[31mx", "left_out": [{"event": "y\u009bz", "samples": 3}, {"samples": 4}]},
 "kinds": ["code"], "texts": ["", "a\u009b31mb"], "frames": {"kind": [0], "name": [1], "module": [0], "file": [0], "line": [0]},
 "nodes": {"depth": [1], "frame": [0]}, "runs": [{"node": [1], "self": [1]}]}
END
says 0 "events that are left out are named, escaped" ': reading event \\x1B\[31mx; ignoring 3 samples of y\\xC2\\x9Bz' "$bn" fold left.json
says 0 "those without a name have none" '4 samples of other events' "$bn" fold left.json
check "a name has no control character" test -z "$("$bn" fold -q left.json | LC_ALL=C grep -a "$(printf '\302\233')")"

# ---- a program and the sampler's log ----
# The log's header: used is at byte 40. Each record: a mark, its length, its kind, a time, process, thread.
# The file says that it joins recordings, as programs of bn do.
cat >scribble.py <<'END'
#!/usr/bin/env python3
# bn program: joins the recording of BN_SAMPLER_LOG
import mmap, os, random, struct, sys, time
MASK = (1 << 64) - 1
path = os.environ["BN_SAMPLER_LOG"]
log = mmap.mmap(os.open(path, os.O_RDWR), 0)
log[64:68] = struct.pack("<I", 1)
while time.process_time() < float(sys.argv[-1]) / 1000: pass
try:
    os.truncate(path, 0)
    print("shorter")
except OSError:
    print("refused")
if sys.argv[1] != "scribble": sys.exit()
random.seed(5)
at = 64 << 20  # behind what the sampler itself will write
paths = [b"fifo", b"empty", b"cut.elf", b"insane.elf"]
paths = [os.path.join(os.getcwd(), p.decode()).encode() for p in paths] + [b"/dev/zero", b"/dev/tty", b"relative", b"[vdso]", b"\x1b[31m<script>", b"/bin/true (deleted)"]
sizes = [0, 1, 7, 8, 255, 256, 257, 2048, 65528, 65529, 0x7fffffff, 0xffffffff]
# One mapping of each file, and samples in it, so that all of them are opened.
text = b"".join(b"%x-%x r-xp 0 0 0 %s\n" % ((i + 1) << 32, (i + 2) << 32, p) for i, p in enumerate(paths))
def put(kind, body, length=None):
    global at
    n = (32 + len(body) + 7) & ~7
    mark = 0xb17e5a3c96d2f041 ^ (at * 0x9e3779b97f4a7c15 & MASK)
    log[at:at + 32] = struct.pack("<QIIQII", mark, n if length is None else length, kind, time.monotonic_ns(), 77, 77)
    log[at + 32:at + 32 + len(body)] = body
    at += n
put(3, struct.pack("<Q", len(text)) + text)
for i in range(len(paths)):
    put(1, struct.pack("<QIIIIQQ", 1000, 2, 0, 0, 0, (i + 1 << 32) + 0x5000, (i + 1 << 32) + 16))
for _ in range(5000):
    kind = random.choice([0, 1, 1, 2, 3, 9])
    body = os.urandom(random.choice([0, 8, 16, 24, 64, 512]))
    if kind == 3 and len(body) > 8: body = struct.pack("<Q", random.choice([0, len(body), MASK, 1 << 40])) + body[8:]
    if kind == 1 and len(body) > 24: body = struct.pack("<QIIII", random.choice([1, MASK]), random.choice(sizes), random.choice(sizes), MASK >> 32, 0) + body[24:]
    put(kind, body, random.choice([None, None, 0, 31, 32, 40, 1 << 20, 0xfffffff8]))
log[40:48] = struct.pack("<Q", at)
END
chmod +x scribble.py
mkfifo fifo
: >empty
head -c 3000 "$bn" >cut.elf
# Program headers whose lengths and addresses are all ones.
{ head -c 64 "$bn"; head -c 4096 /dev/zero | tr '\0' '\377'; } >insane.elf
if ! command -v python3 >/dev/null; then
    skip "a program and the sampler's log" "no python3"
elif ! longer 100 "$bn" record -q --sampler timer -o probe.json -- "$bin/tests/sampled/split"; then
    skip "a program and the sampler's log" "timers do not sample here"
else
    status 0 "a program that makes the log shorter is recorded" longer 150 timeout 600 "$bn" record -q --sampler timer --allow-empty -o plain.json -- ./scribble.py shorten
    cp tap said
    check "it cannot make the log shorter" grep -q refused said
    status 0 "nor bring the reader down by what it writes" longer 150 timeout 600 "$bn" record -q --sampler timer -o wild.json -- ./scribble.py scribble
    check "what was recorded is a document" "$bn" fold -q -o wild.folded wild.json
    for file in fifo empty cut.elf insane.elf zero relative; do check "a sample in $file has no name" grep -qF "[$file]" wild.folded; done
fi
