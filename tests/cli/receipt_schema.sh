#!/usr/bin/env bash
# Receipts of bn-run and bn-crossval are valid by ci/schemas, according to an independent validator; receipts that the
# schemas exclude are not. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh

python=''
for candidate in /usr/bin/python3 python3; do
    [ -n "$python" ] || ! "$candidate" -c 'import jsonschema; jsonschema.Draft202012Validator' 2>/dev/null || python=$candidate
done
if [ -z "$python" ]; then
    skip "receipts are valid by ci/schemas" "python3-jsonschema is not installed"
    exit 0
fi
# valid FILE [PYTHON]: the document d, after the Python statement, is a valid statement.
valid() {
    "$python" -W ignore - "$@" <<'END'
import json, sys
import jsonschema
schemas = [json.load(open("ci/schemas/" + name)) for name in ("receipt-statement.schema.json", "receipt.schema.json")]
for schema in schemas:
    jsonschema.Draft202012Validator.check_schema(schema)
d = json.load(open(sys.argv[1]))
if len(sys.argv) > 2:
    exec(sys.argv[2])
resolver = jsonschema.RefResolver.from_schema(schemas[0], store={s["$id"]: s for s in schemas})
errors = list(jsonschema.Draft202012Validator(schemas[0], resolver=resolver).iter_errors(d))
for error in errors:
    print(list(error.absolute_path), error.message[:200])
sys.exit(1 if errors else 0)
END
}

"$out/bn-run" -q -p 'ROMEO:' -n 4 --receipt "$tmp/r.json" >/dev/null
check "a receipt of bn-run" valid "$tmp/r.json"
"$out/bn-run" -q --tokens 5 -n 1 --threads 1 --isa ref --receipt "$tmp/one.json" >/dev/null
check "a receipt of one token, from token ids" valid "$tmp/one.json"
"$out/bn-run" -q -p 'ROMEO:' -n 4 --temp 0.7 --seed 9007199254740991 --stop x --receipt-text --receipt "$tmp/text.json" >/dev/null
check "a sampled receipt that shows its texts" valid "$tmp/text.json"
for options in '-n 40 --speculate ngram --draft-always' "-n 4 --prompt-cache $tmp/cache" "-n 5 --prompt-cache $tmp/cache"; do
    # shellcheck disable=SC2086 # options are words
    "$out/bn-run" -q -p 'ROMEO: ROMEO: ROMEO:' $options --receipt "$tmp/more.json" >/dev/null
    check "a receipt with ${options%/*}" valid "$tmp/more.json"
done
check "a receipt that states the thinking" valid "$tmp/r.json" 'd["predicate"]["request"]["think"] = True'
check "the receipt among the fixtures" valid fixtures/receipts/statement.json
"$out/bn-crossval" ladder -q -p 'ROMEO:' --ref 'bn --isa ref' --receipt "$tmp/r.json" >/dev/null
check "bn-crossval adds parity" grep -q '"bn.crossval/1"' "$tmp/r.json"
check "and it is still valid" valid "$tmp/r.json"
while read -r edit; do
    status 1 "not valid after $edit" valid "$tmp/r.json" "$edit"
done <<'END'
d["subject"].append(d["subject"][0])
d["subject"].pop()
d["subject"].reverse()
d["subject"][0]["digest"]["sha512"] = "00"
d["predicate"]["parity"]["prompt_ids_sha256"] = None
del d["predicate"]["parity"]["model_sha256"]
d["predicate"]["parity"]["references"][0]["result"] = "maybe"
d["predicate"]["deterministic"] = False
d["predicate"]["request"]["bias"] = 1
d["predicate"]["request"]["think"] = 1
d["predicate"]["backend"] = "cuda"
del d["predicate"]["machine"]
END
