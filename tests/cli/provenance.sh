#!/usr/bin/env bash
# The provenance of a release: bn-verify-receipt --files accepts the files that were signed, and nothing else. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
top=$PWD
bin=$(cd "${OUT:-build/gcc}" && pwd)
verify=$bin/bn-verify-receipt
command -v python3 >/dev/null || { skip 'the provenance of a release' 'no python3'; exit; }

# ---- a release of three files, which another program signed too ----
cd "$tmp" || exit 1
mkdir release used
echo one >release/one.deb && echo two >release/two.tar.gz && echo three >release/bn-0.1.0.spdx.json
(cd release && sha256sum -- * >SHA256SUMS)
echo 'gcc 4:12.2.0-3 amd64' >used/amd64.txt
commit=0123456789abcdef0123456789abcdef01234567
"$top/packaging/provenance.py" release 0.1.0 $commit >statement.json
"$verify" keygen -o key >/dev/null && "$verify" keygen -o other >/dev/null
sign() { "$verify" sign "$1" --key "${3:-key}" -o "$2"; }
check 'a provenance is signed' sign statement.json release/p.dsse
release() { "$verify" release/p.dsse --public-key key.pub --files release "$@"; }
says 0 'its files verify' '^release/p.dsse: verified, level: consistency; 5 of 5 rules' release
says 0 'version, commit and builder are printed' "^4 files, version 0.1.0, commit $commit, built by https://bn.invalid/release/by-hand" release
says 0 'the document has every rule' '"id": "release-files"' release --json
check 'it names the packages that were used' grep -q 'pkg:deb/debian/gcc@4:12.2.0-3?arch=amd64' statement.json
says 0 'one file of it verifies alone' 'release-files +1 compared' "$verify" release/p.dsse --public-key key.pub --files release/one.deb -v
mkdir elsewhere && cp release/p.dsse elsewhere/
says 0 'also when the provenance is elsewhere' 'verified, ' "$verify" elsewhere/p.dsse --public-key key.pub --files release
check 'the envelope is DSSE, whose signature openssl verifies' python3 - release/p.dsse key.pub <<'END2'
import base64, json, subprocess, sys
e = json.load(open(sys.argv[1]))
payload = base64.b64decode(e["payload"])
head = f"DSSEv1 {len(e['payloadType'])} {e['payloadType']} {len(payload)} ".encode()
open("signed", "wb").write(head + payload)
open("sig", "wb").write(base64.b64decode(e["signatures"][0]["sig"]))
subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", sys.argv[2], "-rawin", "-in", "signed", "-sigfile", "sig"], check=True)
assert json.loads(payload)["predicateType"] == "https://slsa.dev/provenance/v1"
END2

# ---- faults in the files ----
fault() { # TITLE PATTERN COMMAND: the command harms the folder, which is restored
    cp -R release kept
    (cd release && eval "$3")
    says 5 "$1" "$2" release
    rm -rf release && mv kept release
}
fault 'a changed file is refused' 'one.deb has another sha256' 'echo more >>one.deb'
fault 'a missing one too' 'two.tar.gz is missing' 'rm two.tar.gz'
fault 'and swapped names' 'one.deb has another sha256' 'mv one.deb x && mv two.tar.gz one.deb && mv x two.tar.gz'
fault 'and a file that was added' 'three.deb is not in the provenance' 'echo three >three.deb'
fault 'hidden ones too' '.hidden is not in the provenance' 'echo three >.hidden'
fault 'and a folder in place of a file' 'one.deb is missing' 'rm one.deb && mkdir one.deb'
fault 'changed digests of the list too' 'SHA256SUMS has another sha256' 'sed -i s/0/1/ SHA256SUMS'
echo other >other.deb
echo evil >release/p.dsse
says 5 'and another file under the name of the provenance' 'p.dsse is not in the provenance' "$verify" elsewhere/p.dsse --public-key key.pub --files release
cp elsewhere/p.dsse release/
says 5 'a file of something else is refused' 'other.deb is not in the provenance' "$verify" release/p.dsse --public-key key.pub --files other.deb
says 3 'a folder that does not exist' 'nowhere' "$verify" release/p.dsse --public-key key.pub --files nowhere

# ---- faults in the signature ----
says 5 'another key does not verify it' 'FAIL +signature +0 of 1 keys' "$verify" release/p.dsse --public-key other.pub --files release
says 5 'nor with --unverified' 'FAIL +signature' "$verify" release/p.dsse --public-key other.pub --files release --unverified
says 5 'an unsigned one is refused' 'FAIL +signature +a signature is required' "$verify" statement.json --public-key key.pub --files release
says 2 'a public key is needed' '--files needs --public-key' "$verify" release/p.dsse --files release
python3 - release/p.dsse forged.dsse <<'END2'
import base64, json, sys
e = json.load(open(sys.argv[1]))
e["payload"] = base64.b64encode(base64.b64decode(e["payload"]).replace(b"0.1.0", b"0.1.1")).decode()
json.dump(e, open(sys.argv[2], "w"))
END2
says 5 'an edited one is refused' 'FAIL +signature' "$verify" forged.dsse --public-key key.pub --files release

# ---- faults in the statement, signed all the same ----
edited() { # TITLE STATUS PATTERN EXPRESSION: Python that changes the statement s
    python3 -c "import json; s = json.load(open('statement.json')); p = s['predicate']; b = p['buildDefinition']; $4; json.dump(s, open('edited.json', 'w'))"
    rm -rf edited && mkdir edited
    if sign edited.json edited/p.dsse 2>said; then
        cp edited/p.dsse release/
        says "$2" "$1" "$3" "$verify" release/p.dsse --public-key key.pub --files release
        cp elsewhere/p.dsse release/
    else
        says 5 "$1" "$3" bash -c 'cat said; exit 5'
    fi
}
edited 'a file twice is not signed' 5 'one.deb is there twice' 's["subject"].append(s["subject"][2])'
edited 'nor a path' 5 'a subject is not a file name' 's["subject"][0]["name"] = "../one.deb"'
edited 'nor another digest' 5 'a subject is not a file name and one sha256' 's["subject"][0]["digest"] = {"sha1": "0" * 40}'
edited 'nor nothing' 5 '0 subjects' 's["subject"] = []'
edited 'a subject that is left out is an extra file' 5 'one.deb is not in the provenance' 's["subject"] = [x for x in s["subject"] if x["name"] != "one.deb"]'
edited 'another kind of build is refused' 1 'FAIL +release-build +buildDefinition.buildType' 'b["buildType"] = "https://example.com/"'
edited 'and other sources' 1 'FAIL +release-build +the first resolved dependency' 'b["resolvedDependencies"][0]["digest"]["gitCommit"] = "f" * 40'
edited 'and no version' 1 'FAIL +release-build +.*version is missing' 'del b["externalParameters"]["version"]'
edited 'and nobody who built it' 1 'FAIL +release-build +runDetails.builder.id is missing' 'p["runDetails"] = {}'

# ---- receipts of runs are not provenances, nor the other way round ----
"$bin/bn-run" -q -p 'ROMEO:' -n 2 --receipt run.json >/dev/null && sign run.json run.dsse
says 4 'a receipt of a run is not a provenance' 'run.dsse: is not the provenance of a release' "$verify" run.dsse --public-key key.pub --files release
says 4 'unsigned neither' 'is not the provenance of a release' "$verify" run.json --public-key key.pub --files release
says 4 'nor a bare predicate' 'is not the provenance of a release' "$verify" "$top/fixtures/receipts/valid-gpu.json" --public-key key.pub --files release
says 4 'a provenance is not a receipt of a run' 'hint: bn-verify-receipt FILE --public-key KEY --files' "$verify" release/p.dsse --public-key key.pub
says 4 'unsigned neither' 'is the provenance of a release, not a receipt' "$verify" statement.json
says 1 'nor one in a folder of receipts' '1 not readable as receipts' "$verify" elsewhere --public-key key.pub
says 2 'it is not replayed' '--files needs one provenance' "$verify" release/p.dsse --public-key key.pub --files release --replay
says 2 'and alone' '--files needs one provenance' "$verify" release/p.dsse run.dsse --public-key key.pub --files release
