// A llama-server of eight tokens, "a" to "h", that answers as versions of two ages do: node fake_llama_server.mjs old|new.
// Prints the port that it listens on. The next token's probability falls by half from the last token's successor on.
import {createServer} from "node:http";

const age = process.argv[2];
const names = [..."abcdefgh"];

function completion({prompt, n_probs: n, temperature, n_predict, cache_prompt, ignore_eos}) {
    if (n === undefined && ignore_eos && cache_prompt === false && (age === "old") === (temperature < 0))
        return [200, {timings: {prompt_n: prompt.length, prompt_ms: 0.5 * prompt.length, predicted_n: n_predict, predicted_ms: 0.25 * (n_predict - 1)}}];
    if (!Array.isArray(prompt) || n_predict !== 1 || (age === "old") !== (temperature < 0)) return [400, {error: "not as the test expects"}];
    const ids = names.map((_, i) => (prompt.at(-1) + 1 + i) % names.length).slice(0, n);
    const probability = (i) => 2 ** -(i + 1);
    if (age === "old") {
        const probs = ids.map((id, i) => ({tok_str: names[id], prob: probability(i)}));
        return [200, {content: names[ids[0]], completion_probabilities: [{content: names[ids[0]], probs}]}];
    }
    const top = ids.map((id, i) => ({id, token: names[id], bytes: [97 + id], logprob: Math.log(probability(i))}));
    return [200, {content: names[ids[0]], completion_probabilities: [{...top[0], top_logprobs: top}]}];
}

function answer(path, body) {
    if (path === "/completion") return completion(body);
    if (path === "/tokenize") {
        const tokens = [...body.content].map((c) => names.indexOf(c)).filter((i) => i >= 0);
        return [200, {tokens: body.add_special ? [7, ...tokens] : tokens}];
    }
    if (age === "new" && path === "/props")
        return [200, {build_info: "b1-fake", model_path: process.argv[3], default_generation_settings: {n_ctx: 64}}];
    if (age === "new" && path === "/v1/models") return [200, {data: [{meta: {n_vocab: 8, n_ctx_train: 64}}]}];
    return [404, {error: "no such path"}];
}

const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const [status, body] = answer(request.url, chunks.length ? JSON.parse(Buffer.concat(chunks)) : null);
    response.writeHead(status, {"content-type": "application/json"});
    response.end(JSON.stringify(body));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
