// SPDX-License-Identifier: MIT
// Asks bn-serve by Ollama's own client, as its examples do.
//   ollama.mjs URL KEY
import { Ollama } from 'ollama';
import { assert, test } from './harness.js';

const [, , host, key] = process.argv;
const headers = { authorization: `Bearer ${key}` };
const client = new Ollama({ host, headers });
const model = 'shakespeare-5m-i2_s.gguf';
const ask = { model, messages: [{ role: 'user', content: 'Who is there?' }], options: { num_predict: 12, seed: 5, temperature: 0.7 } };
const refused = (status, pattern) => (error) => error.status_code === status && pattern.test(error.message);
const post = async (path, body) => (await fetch(host + path,
    { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body) })).json();

await test('the version is one of Ollama', async () => {
    assert.match((await client.version()).version, /^0\.\d+\.\d+$/);
});
await test('models are listed, and those that are open', async () => {
    const [{ models: [one] }, { models: [open] }] = [await client.list(), await client.ps()];
    assert.deepEqual([one.name, one.details.family, one.details.quantization_level], [model, 'bitnet-b1.58', 'I2_S']);
    assert.equal(one.size, 2338912);
    assert.equal(one.digest, open.digest);
    assert.ok(new Date(open.expires_at) > new Date(one.modified_at));
});
await test('a model is shown', async () => {
    const { details, model_info: info, capabilities } = await client.show({ model });
    assert.equal(details.format, 'gguf');
    assert.equal(info[`${info['general.architecture']}.context_length`], 1024);
    assert.ok(capabilities.includes('completion') && capabilities.includes('embedding'));
});
let whole;
await test('a chat is answered', async () => {
    whole = await client.chat(ask);
    assert.equal(whole.message.role, 'assistant');
    assert.deepEqual([whole.done, whole.done_reason, whole.eval_count], [true, 'length', 12]);
    assert.ok(whole.total_duration >= whole.eval_duration + whole.prompt_eval_duration);
    assert.ok(Math.abs(new Date(whole.created_at) - Date.now()) < 3600000);
});
await test('a stream has the same text', async () => {
    let text = '', n = 0, last;
    for await (last of await client.chat({ ...ask, stream: true })) {
        text += last.message.content;
        n++;
    }
    assert.ok(n > 3);
    assert.equal(text, whole.message.content);
    assert.equal(last.bn.chain, whole.bn.chain);
});
await test('it is the answer of the other chat API', async () => {
    const other = await post('/v1/chat/completions', { messages: ask.messages, max_tokens: 12, seed: 5, temperature: 0.7, top_k: 40, top_p: 0.9 });
    assert.equal(other.choices[0].bn.chain, whole.bn.chain);
});
await test('a text is generated, with a template and without one', async () => {
    const options = ask.options;
    const one = await client.generate({ model, prompt: 'Who is there?', options });
    assert.deepEqual([one.response, one.bn.chain], [whole.message.content, whole.bn.chain]);
    let raw = '';
    for await (const line of await client.generate({ model, prompt: 'ROMEO:', raw: true, stream: true, options })) raw += line.response;
    const other = await post('/v1/completions', { prompt: 'ROMEO:', max_tokens: 12, seed: 5, temperature: 0.7, top_k: 40, top_p: 0.9 });
    assert.equal(raw, other.choices[0].text);
});
await test('texts are embedded', async () => {
    const input = ['Who is there?', 'A friend.'];
    const { embeddings, prompt_eval_count } = await client.embed({ model, input });
    const other = await post('/v1/embeddings', { input });
    assert.deepEqual(embeddings, other.data.map((d) => d.embedding));
    assert.equal(prompt_eval_count, other.usage.prompt_tokens);
    assert.deepEqual((await client.embeddings({ model, prompt: input[1] })).embedding, embeddings[1]);
});
await test('a schema constrains the answer', async () => {
    const format = { type: 'object', properties: { age: { type: 'integer', minimum: 0, maximum: 99 } }, required: ['age'], additionalProperties: false };
    const { message } = await client.chat({ ...ask, format, options: { ...ask.options, num_predict: 60 } });
    const { age } = JSON.parse(message.content);
    assert.ok(Number.isInteger(age) && age >= 0 && age <= 99);
});
await test('functions may be called', async () => {
    const tools = [{ type: 'function', function: { name: 'now', description: 'The time', parameters: { type: 'object', properties: {} } } }];
    const call = { role: 'assistant', content: '', tool_calls: [{ function: { name: 'now', arguments: {} } }] };
    const messages = [...ask.messages, call, { role: 'tool', tool_name: 'now', content: '12:30' }];
    assert.equal((await client.chat({ ...ask, messages, tools })).message.role, 'assistant');
});
await test('a stream is aborted, and another request answered', async () => {
    const stream = await client.chat({ ...ask, stream: true, options: { num_predict: -1 } });
    await assert.rejects(async () => {
        for await (const line of stream) line.done || stream.abort();
    }, { name: 'AbortError' });
    assert.equal((await client.chat(ask)).bn.chain, whole.bn.chain);
});
await test('a model is loaded by an empty request', async () => {
    assert.equal((await client.chat({ model, messages: [], keep_alive: '5m' })).done_reason, 'load');
});
await test('errors name what is wrong', async () => {
    await assert.rejects(client.chat({ ...ask, options: { temperature: -1 } }), refused(400, /temperature/));
    await assert.rejects(client.chat({ ...ask, stream: true, messages: [{ role: 'user', content: 'a', images: ['AAAA'] }] }), refused(400, /images/));
    await assert.rejects(new Ollama({ host, headers: { authorization: 'Bearer wrong' } }).list(), refused(401, /wrong key/));
});
await test('models are not changed', async () => {
    const change = { model: 'x', from: 'y', source: 'x', destination: 'y' };
    for (const name of ['pull', 'push', 'create', 'copy', 'delete'])
        await assert.rejects(client[name](change), refused(501, /bn-download/), name);
});
await test('many requests at a time get the answers that they get alone', async () => {
    const seeds = Array.from({ length: 12 }, (_, i) => client.chat({ ...ask, options: { ...ask.options, seed: i } }));
    assert.equal((await Promise.all(seeds))[5].bn.chain, whole.bn.chain);
});
