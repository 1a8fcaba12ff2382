#!/usr/bin/env bash
# bn-verify-receipt --batch: every receipt has the verdict that it has alone, however many are replayed at a time, and on several
# ranks; a damaged
# one costs only itself; lines, JUnit and exit status agree. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
out=$bin
# shellcheck source=tests/mpi/mpirun.sh
. tests/mpi/mpirun.sh
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS BITNET_ALLOW_CORRECTIONS SOURCE_DATE_EPOCH
verify=$bin/bn-verify-receipt
model=$PWD/fixtures/built-in-i2_s.gguf
all=$tmp/all
cd "$tmp" || exit 1

# ---- receipts: good ones of many kinds, damaged ones, and those of another model ----

cat >in <<'END'
"ROMEO:"
{"prompt": "ROMEO: I am", "n_predict": 24, "temperature": 0.9, "seed": 5, "top_k": 50}
{"prompt": "ROMEO: I am", "n_predict": 9, "stop": ["the"], "repeat_penalty": 1.2}
{"tokens": [40, 41, 42], "n_predict": 20}
{"prompt": "First Citizen: before we proceed any further, hear me speak.", "n_predict": 1}
{"prompt": "A list:", "n_predict": 40, "json_schema": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}}
{"prompt": "JULIET:", "n_predict": 33, "temperature": 1.3, "seed": 9007199254740991, "min_p": 0.02}
END
"$bin/bn-run" -q --batch-file in -n 14 --receipts "$all/a" >out || exit 1
"$bin/bn-run" -q -p 'ROMEO:' -n 200 --ctx 24 --receipt "$all/context.json" >out
mkdir "$all/a/b"
for i in 0 1 2; do cp "$all/a/$i.json" "$all/a/b/$i.json"; done
printf 'x' >"$all/notes.txt"
mkdir "$all/.hidden"
cp "$all/context.json" "$all/.hidden/"
# Sealed again after a change, so that only the replay finds it.
python3 - "$all" <<'END'
import hashlib, json, sys
def canonical(v):
    return json.dumps(v, sort_keys=True, separators=(',', ':'), ensure_ascii=False)
def reseal(s):
    ids = s['predicate']['result']['ids']
    digest = hashlib.sha256(b''.join(i.to_bytes(4, 'little') for i in ids)).hexdigest()
    s['predicate']['result']['ids_sha256'] = s['subject'][1]['digest']['sha256'] = digest
    del s['receipt_sha256']
    s['receipt_sha256'] = hashlib.sha256(canonical(s).encode()).hexdigest()
    return s
d = sys.argv[1]
s = json.load(open(d + '/a/1.json'))
s['predicate']['result']['ids'][5] ^= 1
json.dump(reseal(s), open(d + '/forged-token.json', 'w'))
s = json.load(open(d + '/a/3.json'))
s['predicate']['result']['chain'] = '0' * 64
json.dump(reseal(s), open(d + '/forged-chain.json', 'w'))
s = json.load(open(d + '/a/6.json'))
s['predicate']['request']['seed'] = 4
json.dump(reseal(s), open(d + '/forged-seed.json', 'w'))
END
sed 's/"tokens_generated": 14/"tokens_generated": 13/' "$all/a/0.json" >"$all/edited.json"
head -c 700 "$all/a/0.json" >"$all/truncated.json"
: >"$all/empty.json"
sed 's/"backend":/"backend": "cpu", "backend":/' "$all/a/0.json" >"$all/duplicate.json"
head -c 9437184 /dev/zero | tr '\0' ' ' >"$all/oversized.json"
echo '[1, 2]' >"$all/list.json"
ln -s nowhere "$all/dangling.json"
mkfifo "$all/pipe.json"
cp "$model" flipped.gguf
printf '\125' | dd of=flipped.gguf bs=1 seek=2000000 conv=notrunc 2>/dev/null
"$bin/bn-run" -q -m flipped.gguf -p 'To be, or not' -n 12 --receipt "$all/other.json" >out
bad='dangling duplicate edited empty forged-chain forged-seed forged-token list other oversized pipe truncated'
n_files=$(find "$all" -name '*.json' ! -path '*/.hidden/*' | wc -l)

member() { python3 -c 'import json, sys
for line in open(sys.argv[1]):
    d = json.loads(line)
    print(*(d.get(m) for m in sys.argv[2:]))' "$@"; }
batch() { "$verify" --batch "$all" --json "$@" >lines 2>err; }

# ---- the same verdicts as alone ----

# What N single calls find: file, exit status, first bad rule.
find "$all" -name '*.json' ! -path '*/.hidden/*' | LC_ALL=C sort >list
while read -r file; do
    case $file in */pipe.json) echo "$file 8"; continue ;; esac
    "$verify" "$file" --replay --json >one.json 2>/dev/null
    status=$?
    rule=$(python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(next((r["id"] for r in d.get("rules", []) if r["verdict"] in ("fail", "undecided")), None))' one.json)
    echo "$file $status $rule"
done <list | LC_ALL=C sort >alone
for sequences in 1 4 16; do
    says 1 "$sequences at a time: the exit status tells that some failed" . \
        bash -c "'$verify' --batch '$all' --replay --json --sequences $sequences >lines; code=\$?; echo ran; exit \$code"
    member lines file exit_code rule | sed 's/^\(.*pipe.json\) .*/\1 8/' | LC_ALL=C sort >together
    check 'each receipt has the verdict and the rule that it has alone' cmp alone together
done
check 'there is a line for each file but hidden ones and other names' equal "$(wc -l <lines)" "$n_files"
check 'in the order of paths, with their index' equal "$(member lines index | tr '\n' ' ')" "$(seq -s ' ' 0 $((n_files - 1))) "
check 'the damaged ones, and no others, are not verified' equal \
    "$(python3 -c 'import json; print(*sorted(d["file"].split("/")[-1][:-5] for d in map(json.loads, open("lines")) if not d["verified"]))')" "$bad"
check 'tokens of replays are counted' grep -q '"replayed_tokens":24' lines
check 'the summary says how many' grep -qE "$n_files receipts: [0-9]+ verified, 5 refused, 7 not readable" <("$verify" --batch "$all" --replay)
status 0 'good ones alone are verified' "$verify" --batch "$all/a" --replay
mkdir few
cp "$all"/a/[0-3].json few
for arguments in '--isa ref --threads 1' '--threads 3 --prompt-batch 16' '--prompt-batch 1 --sequences 3'; do
    # shellcheck disable=SC2086 # options are words
    status 0 "with $arguments too" "$verify" --batch few --replay $arguments
done

# ---- ranks ----

if has_mpi; then
    for n in 2 3; do
        mpi $n "$verify" --batch "$all" --replay --json --sequences 2 --junit ranks.xml >lines 2>err
        check "$n ranks: the exit status tells that some failed" equal $? 1
        member lines file exit_code rule | sed 's/^\(.*pipe.json\) .*/\1 8/' | LC_ALL=C sort >together
        check 'each receipt has the verdict that it has alone' cmp alone together
        check 'in order' equal "$(member lines index | tr '\n' ' ')" "$(seq -s ' ' 0 $((n_files - 1))) "
        check 'one JUnit file has all' equal "$(grep -c '<testcase ' ranks.xml)" "$n_files"
    done
    find "$all/a" -name '*.json' | mpi 2 "$verify" --batch - --replay >lines 2>err
    check 'rank 0 reads standard input' grep -q '^10 receipts: 10 verified' lines
    says 3 'a model that is missing ends all ranks' 'nothing.gguf' mpi 2 "$verify" --batch "$all" -m nothing.gguf
    says 3 'no receipts are an error' 'no receipts' mpi 2 "$verify" --batch /dev/null
else
    skip 'ranks' 'mpirun or bn-mpi.so is missing'
fi

# ---- models ----

status 1 'a receipt of another model is refused by a replay' "$verify" --batch <(echo "$all/other.json") --replay
status 0 'two models are known by their digests' "$verify" --batch <(printf '%s\n' "$all/other.json" "$all/a/0.json" "$all/other.json") \
    --replay -m "$model" -m flipped.gguf
status 0 'also for one receipt' "$verify" "$all/other.json" --replay -m "$model" -m flipped.gguf
status 3 'a model that is not there ends the batch' "$verify" --batch "$all" -m nothing.gguf

# A model with recurrent layers cannot take back a token: its replays have no drafts.
recurrent=$("$bin/bn-fixtures" gen --size quad --arch qwen35 --format q2_0 -o recurrent | awk '{print $2}')
for i in 1 2 3 4 5; do echo "{\"tokens\": [5, 6, $i], \"n_predict\": 12, \"temperature\": 0.7, \"seed\": $i}"; done >in
"$bin/bn-run" -q -m "$recurrent" --batch-file in --receipts recurrent/receipts >out
says 0 'a model with recurrent layers' '^5 receipts: 5 verified' "$verify" --batch recurrent/receipts --replay --sequences 3 -m "$recurrent"

# ---- a folder, or several receipts, without an option ----

"$verify" --batch "$all" --replay --json >lines 2>err
"$verify" "$all" --replay --json >named 2>err
untimed() { sed -E 's/"(check|replay)_ns":[0-9]+//g' "$1"; }
check 'a folder is what --batch makes of it' equal "$(untimed named)" "$(untimed lines)"
check 'also as --path' equal "$("$verify" --path "$all" --json | untimed -)" "$("$verify" --batch "$all" --json | untimed -)"
cp "$all/a/0.json" any-name
says 0 'several receipts of any name' '^2 receipts: 2 verified' "$verify" any-name "$all/a/1.json" --replay --sequences 2
says 1 'one that is not there fails' '^nothing.json: ERROR: ' "$verify" "$all/a/1.json" nothing.json
says 1 'but not the others' '^2 receipts: 1 verified, 1 not readable' "$verify" "$all/a/1.json" nothing.json
says 1 'files and folders together' 'receipts: [0-9]+ verified, 5 refused' "$verify" any-name "$all" --replay --junit several.xml
check 'with a JUnit file' grep -q '<testsuite name="receipts"' several.xml

# ---- lists and lines ----

status 0 'a list of paths' "$verify" --batch <(find "$all/a" -name '*.json') --replay
find "$all/a" -name '*.json' | "$verify" --batch - >out 2>&1
check 'standard input is a list too' equal $? 0
for i in 0 1 2; do python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))' "$all/a/$i.json"; done >lines.jsonl
echo '{"broken' >>lines.jsonl
{ echo && cat "$all/oversized.json" && echo; } >>lines.jsonl
second=$(sed -n 2p lines.jsonl)
printf "%s\n" "$second" >>lines.jsonl
printf '%s\r\n' "$all/a/3.json" >>lines.jsonl
says 1 'lines of JSON are receipts, others are paths' '^7 receipts: 5 verified, 2 not readable' "$verify" --batch lines.jsonl --replay
says 1 'a line is named by its number' 'lines.jsonl:4: ERROR: ' "$verify" --batch lines.jsonl
says 1 'one that is too long costs only itself' 'ERROR: .*limit|ERROR: .*too' "$verify" --batch lines.jsonl
mkdir strange && cp "$all/a/3.json" strange && mkfifo strange/pipe.jsonl && ln -s /dev/zero strange/zero.jsonl && ln -s / strange/root.jsonl && ln -s nowhere strange/lost.jsonl
says 1 'what is not a file costs only itself' '^5 receipts: 1 verified, 4 not readable' timeout 60 "$verify" --batch strange
cp lines.jsonl "$all/a/more.jsonl"
says 1 'a folder may have files of lines' 'more.jsonl:4: ERROR: ' "$verify" --batch "$all/a"
rm "$all/a/more.jsonl"

# ---- what is passed over, and what is there twice ----

mkdir odd more && cp "$all/a/0.json" odd/UPPER.JSON && cp "$all/a/1.json" odd/signed.dsse && cp "$all/a/2.json" more/
says 0 'other names of receipts are read' '^2 receipts: 2 verified' "$verify" --batch odd
ln -s ../more odd/linked
says 9 'a linked folder is not followed' '^2 receipts: 2 verified, 1 not looked at;' "$verify" --batch odd
says 9 'which is said' 'warning: not looked at: odd/linked$' "$verify" --batch odd --json
rm odd/linked
gzip <more/2.json >odd/r.json.gz
says 9 'nor is a packed receipt read' 'not looked at: odd/r.json.gz' "$verify" --batch odd
rm odd/r.json.gz
for i in 1 2 3 4 5; do cp "$all/a/2.json" odd/$i.json; done
python3 -c 'import json; json.dump(json.load(open("more/2.json")), open("odd/6.json", "w"))'
says 0 'copies are counted as such' '^8 receipts: 8 verified, 5 duplicates of others;' "$verify" --batch odd
"$verify" --batch odd --json >lines 2>err
check 'lines have the digest of the receipt' equal "$(member lines receipt_sha256 | sort -u | wc -l)" 3

# ---- JUnit ----

"$verify" --batch "$all" --replay --junit r.xml -q >out
check 'JUnit and standard output count alike' equal "$(python3 - <<'END'
import xml.etree.ElementTree as x
suite = x.parse('r.xml').getroot().find('testsuite')
cases = suite.findall('testcase')
count = lambda name: sum(c.find(name) is not None for c in cases)
assert int(suite.get('tests')) == len(cases)
for name in ('failure', 'error', 'skipped'):
    assert int(suite.get({'failure': 'failures', 'error': 'errors'}.get(name, name))) == count(name)
print(len(cases), count('failure'), count('error'))
END
)" "$n_files $(grep -c REFUSED out) $(grep -c ERROR out)"
check 'it is well-formed' xmllint --noout r.xml
check 'nothing else is left of it' equal "$(find . -maxdepth 1 -name 'r.xml*' | wc -l)" 1
status 3 'a JUnit file that cannot be written ends the batch' "$verify" --batch "$all/a" --junit /proc/none/r.xml

# ---- a kill leaves whole lines ----

for ((i = 0; i < 400; i++)); do cat list; done >long
"$verify" --batch long --replay --json --junit killed.xml >killed 2>/dev/null &
pid=$!
wait_for test -s killed -o ! -d "/proc/$pid"
kill -KILL $pid
wait $pid 2>/dev/null
check 'a killed batch leaves whole lines' python3 -c 'import json
text = open("killed").read()
assert text.endswith("\n") and [json.loads(line)["index"] for line in text.splitlines()] == list(range(text.count("\n")))'
check 'and no JUnit file' test ! -e killed.xml
env --default-signal=INT "$verify" --batch long --replay --json --junit stopped.xml >stopped 2>/dev/null &
pid=$!
wait_for test -s stopped -o ! -d "/proc/$pid"
kill -INT $pid
wait $pid
check 'an interrupted one ends by its signal' equal $? 130
check 'with whole lines and a JUnit file of as many' equal "$(grep -c '<testcase ' stopped.xml)" "$(wc -l <stopped)"

# ---- what is refused ----

status 2 'a receipt next to --batch' "$verify" "$all/a/0.json" --batch "$all"
says 2 'the option that sets the tokens of a batch is named' 'prompt-batch 2' "$verify" "$all/a/0.json" --batch 2
says 2 '--junit of one receipt' 'needs several receipts' "$verify" "$all/a/0.json" --junit x.xml
says 2 'a misspelt command is not a receipt' 'did you mean sign' "$verify" sing "$all/a/0.json"
status 2 '--sequences 0' "$verify" --batch "$all" --sequences 0
says 2 'one receipt is not a list' 'is one receipt' "$verify" --batch "$all/a/0.json"
status 3 'a folder that does not exist' "$verify" --batch nothing
mkdir none
says 3 'a folder without receipts' 'no receipts' "$verify" --batch none
says 3 'an empty list' 'no receipts' "$verify" --batch /dev/null
