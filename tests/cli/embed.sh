#!/usr/bin/env bash
# bn-run embed: texts in, vectors out; what it prints, what it refuses, and that batches, threads and instruction sets change no
# bit. When node-llama-cpp is installed, vectors are compared with it. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
generate() { "$bin/bn-fixtures" gen -q -o "$tmp" --size nano "$@" | sed 's/^[0-9a-f]*  //'; }
model=$(generate --arch qwen3 --format i2_s --input-norms)
gemma=$(generate --arch gemma3 --format i2_s --input-norms --window 4)
plain=$(generate --arch qwen3 --format i2_s --embedding f16)
embed() { BN_MODEL=$model "$bin/bn-run" embed -q "$@"; } # -m replaces it
texts=('To be, or not to be' 'What is it?' 'zwei')

embed "${texts[@]}" >"$tmp/lines"
embed --raw "$tmp/raw" "${texts[@]}"
# The numbers of the lines as raw floats.
floats() { node -e '
const rows = require("fs").readFileSync(process.argv[1], "utf8").trim().split("\n").map((l) => JSON.parse(l).embedding);
process.stdout.write(Buffer.from(new Float32Array(rows.flat(3)).buffer));' "$1"; }
same_floats() { floats "$tmp/lines" | cmp - "$tmp/raw"; }
if command -v node >/dev/null; then
    check "numbers read back to the floats of --raw" same_floats
else
    skip "numbers read back to the floats of --raw" "node is not installed"
fi
check "a line for each text" equal "$(wc -l <"$tmp/lines")" 3
check "a line has index, text and tokens" grep -q '^{"index":1,"text":"What is it?","tokens":[0-9]*,"embedding":\[' "$tmp/lines"
check "--raw has 128 floats for each text" equal "$(wc -c <"$tmp/raw")" $((3 * 128 * 4))
n_tokens() { "$bin/bn-run" tokenize -q -m "$model" --ids -p "$1" | tr ',' '\n' | wc -l; }
check "the end token that the file asks for is there" equal "$(sed -n 's/.*"text":"zwei","tokens":\([0-9]*\).*/\1/p' "$tmp/lines")" "$(n_tokens zwei)"
check "it is one more than without" equal "$(n_tokens zwei)" "$(($("$bin/bn-run" tokenize -q -m "$model" --no-bos --ids -p zwei | tr ',' '\n' | wc -l) + 1))"

printf '%s\n' "${texts[@]}" >"$tmp/texts"
printf '"%s"\n' "${texts[@]}" >"$tmp/jsonl"
same_output() { "$@" | cmp - "$tmp/lines"; }
check "-p is a text" equal "$(embed -p zwei)" "$(embed zwei)"
check "lines of a file are texts" same_output embed -f "$tmp/texts"
check "so are JSON strings" same_output embed --jsonl -f "$tmp/jsonl"
from_stdin() { embed <"$tmp/texts"; }
check "and standard input" same_output from_stdin
instructed() { equal "$(embed --instruct Find zwei | sed 's/.*"tokens"//')" "$(embed "$(printf 'Instruct: Find\nQuery:zwei')" | sed 's/.*"tokens"//')"; }
check "--instruct is the text before the query" instructed

for m in "$model" "$gemma"; do
    for pooling in none mean first last; do
        embed -m "$m" --pooling "$pooling" --raw "$tmp/want" --threads 1 "${texts[@]}"
        for way in "--batch 1" "--batch 3 --threads 2" "--isa ref --batch 7" "--threads 2"; do
            # shellcheck disable=SC2086 # words
            embed -m "$m" --pooling "$pooling" --raw "$tmp/got" $way "${texts[@]}"
            check "$(basename "$m"), $pooling, $way: the same bits" cmp "$tmp/want" "$tmp/got"
        done
    done
done
differ() { ! cmp -s "$1" "$2"; }
embed --pooling mean --raw "$tmp/mean" "${texts[@]}"
check "the mean is another vector than the last token" differ "$tmp/mean" "$tmp/raw"
embed --no-normalize --raw "$tmp/long" "${texts[@]}"
check "--no-normalize keeps the length" differ "$tmp/long" "$tmp/raw"

embed --similarity "${texts[@]}" >"$tmp/table"
check "a text is equal to itself" grep -qE '^ *1 +1\.000 .* To be, or not to be$' "$tmp/table"
says 2 "no text is an error" 'no text is given' embed
says 2 "two sources of texts are an error" 'both give texts' embed -f "$tmp/texts" zwei
says 2 "--jsonl needs lines" '--jsonl needs --file' embed --jsonl zwei
says 2 "--similarity needs a vector for each text" 'choose one' embed --similarity --pooling none zwei
says 4 "a line that is not JSON is an error" 'line 1' embed --jsonl -f "$tmp/texts"
says 9 "a file without a pooling is an error" 'qwen3\.pooling_type.*' "$bin/bn-run" embed -q -m "$plain" zwei
check "with a pooling it runs" "$bin/bn-run" embed -q -m "$plain" --pooling mean zwei

# A norm of inputs that is missing, one that no architecture with sub-norms has, and LongRoPE, planted by renaming.
sed 's/blk\.0\.ffn_up_norm_in\.weight/blk.0.ffn_up_norm_iX.weight/' "$model" >"$tmp/broken.gguf"
says 4 "a missing norm of inputs is an error" 'blk\.0\.ffn_up_norm_in\.weight: missing tensor' embed -m "$tmp/broken.gguf" zwei
sed 's/blk\.0\.attn_q_norm_in\.weight/blk.0.attn_q_norm_iX.weight/' "$model" >"$tmp/broken.gguf"
says 9 "norms of some inputs are refused" 'norm_in\.weight.*not supported' embed -m "$tmp/broken.gguf" zwei
sed 's/blk\.0\.attn_q_norm\.weight/rope_factors_long.weight/' "$plain" >"$tmp/broken.gguf"
says 9 "LongRoPE without the factors of short texts is refused" 'rope_factors_long\.weight.*LongRoPE' embed -m "$tmp/broken.gguf" zwei

peer=${BN_BRIDGE_DIR:-$bin/crossval}/node-llama-cpp
if [ -f "$peer/installed-lock.json" ] && command -v node >/dev/null; then
    float=$("$bin/bn-fixtures" gen -q -o "$tmp" --size tiny --vocab 320 --arch qwen3 --format f16 --embedding f16 --tied | sed 's/^[0-9a-f]*  //')
    "$bin/bn-run" embed -q -m "$float" --pooling last "${texts[@]}" >"$tmp/last"
    "$bin/bn-run" embed -q -m "$float" --pooling mean "${texts[@]}" >"$tmp/mean"
    # shellcheck disable=SC2016 # JavaScript
    compare='
import {getLlama} from "node-llama-cpp";
import {readFileSync} from "node:fs";
const [path, lines, least] = process.argv.slice(2);
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, progressLogs: false, logLevel: "error"});
const model = await llama.loadModel({modelPath: path, gpuLayers: 0});
const context = await model.createEmbeddingContext({contextSize: 512, threads: 1});
const dot = (x, y) => x.reduce((sum, v, i) => sum + v * y[i], 0);
let worst = 1;
for (const line of readFileSync(lines, "utf8").trim().split("\n")) {
    const {text, tokens, embedding} = JSON.parse(line);
    const ids = model.tokenize(text);
    const {vector} = await context.getEmbeddingFor(ids);
    if (ids.length !== tokens) throw new Error(`${tokens} tokens, not ${ids.length}`);
    worst = Math.min(worst, dot(vector, embedding) / Math.sqrt(dot(vector, vector) * dot(embedding, embedding)));
}
console.log(`cosine ${worst}`);
await llama.dispose();
process.exit(worst >= Number(least) ? 0 : 1);'
    printf '%s\n' "$compare" >"$peer/embed-test.mjs" # packages are found from there
    alike() { node "$peer/embed-test.mjs" "$float" "$1" 0.99999; }
    check "llama.cpp has the same vectors" alike "$tmp/last"
    status 1 "and finds another pooling" alike "$tmp/mean"
    rm -f "$peer/embed-test.mjs"
else
    skip "llama.cpp has the same vectors" "not installed; make crossval-npm does that"
fi
