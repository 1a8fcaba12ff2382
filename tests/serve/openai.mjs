// SPDX-License-Identifier: MIT
// Asks bn-serve by OpenAI's own client, as its examples do. It prints "pass TITLE" or "fail TITLE: REASON" for each test.
//   openai.mjs URL KEY
import OpenAI from 'openai';
import assert from 'node:assert/strict';

const [, , url, key] = process.argv;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const messages = [{ role: 'user', content: 'Who is there?' }];
const ask = { model: 'bn', messages, max_completion_tokens: 12, seed: 5, temperature: 0.7 };

async function test(title, run) {
    try {
        await run();
        console.log(`pass ${title}`);
    } catch (error) {
        console.log(`fail ${title}: ${String(error.message).split('\n').slice(0, 4).join(' ')}`);
    }
}
const refused = (status, check) => (error) => error.status === status && check(error);

let whole;
await test('models are listed', async () => {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ['shakespeare-5m-i2_s.gguf']);
});
await test('one model is retrieved, others are not', async () => {
    const model = await client.models.retrieve('shakespeare-5m-i2_s.gguf');
    assert.equal(model.id, 'shakespeare-5m-i2_s.gguf');
    assert.equal(model.object, 'model');
    await assert.rejects(client.models.retrieve('gpt-4'),
        refused(404, (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found'));
});
await test('a chat is answered', async () => {
    const { data, response } = await client.chat.completions.create(ask).withResponse();
    whole = data;
    assert.equal(data.object, 'chat.completion');
    assert.equal(data.choices[0].message.role, 'assistant');
    assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
    assert.equal(data._request_id, response.headers.get('x-bn-receipt'));
    assert.equal(data.choices[0].bn.receipt, data._request_id);
});
await test('its receipt is served', async () => {
    const receipt = await client.get(`/receipts/${whole.choices[0].bn.receipt}`);
    assert.equal(receipt.predicate.result.chain, whole.choices[0].bn.chain);
});
await test('a stream has the same text', async () => {
    let text = '', last, usage;
    const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? '';
        last = chunk.choices[0] ?? last;
        usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(last.finish_reason, whole.choices[0].finish_reason);
    assert.equal(last.bn.chain, whole.choices[0].bn.chain);
    assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});
await test('the helper that collects a stream agrees', async () => {
    const message = await client.chat.completions.stream(ask).finalContent();
    assert.equal(message, whole.choices[0].message.content);
});
await test('log-probabilities are streamed', async () => {
    let n = 0;
    const stream = await client.chat.completions.create({ ...ask, stream: true, logprobs: true, top_logprobs: 3 });
    for await (const chunk of stream)
        for (const entry of chunk.choices[0].logprobs?.content ?? []) {
            assert.ok(entry.logprob <= 0 && entry.top_logprobs.length === 3);
            assert.deepEqual(entry.bytes, [...Buffer.from(entry.token)]);
            n++;
        }
    assert.equal(n, whole.usage.completion_tokens);
});
await test('a text is completed', async () => {
    const { choices } = await client.completions.create({ model: 'bn', prompt: ['ROMEO:', 'JULIET:'], n: 2, logprobs: 2 });
    assert.deepEqual(choices.map((c) => c.index), [0, 1, 2, 3]);
    for (const { text, logprobs } of choices) assert.equal(logprobs.tokens.join(''), text);
});
await test('texts are embedded, as base64 and as numbers', async () => {
    const input = ['Who is there?', 'A friend.'];
    const { data, usage } = await client.embeddings.create({ model: 'bn', input });
    const plain = await client.embeddings.create({ model: 'bn', input, encoding_format: 'float' });
    assert.deepEqual(data.map((d) => d.embedding), plain.data.map((d) => [...new Float32Array(d.embedding)]));
    assert.ok(Math.abs(data[0].embedding.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
    assert.equal(usage.prompt_tokens, usage.total_tokens);
    await assert.rejects(client.embeddings.create({ model: 'bn', input, dimensions: 3 }),
        refused(400, (e) => e.param === 'dimensions'));
});
await test('an error names the member', async () => {
    await assert.rejects(client.chat.completions.create({ ...ask, temperature: -1 }),
        refused(400, (e) => e instanceof OpenAI.BadRequestError && e.param === 'temperature'));
    const schema = { type: 'strange' };
    await assert.rejects(
        client.chat.completions.create({ ...ask, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }),
        refused(400, (e) => e.param.startsWith('response_format')));
});
await test('a schema constrains the answer', async () => {
    const schema = { type: 'object', properties: { age: { type: 'integer', minimum: 0, maximum: 99 } }, required: ['age'], additionalProperties: false };
    const { choices } = await client.chat.completions.create(
        { ...ask, max_tokens: 60, response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } } });
    const { age } = JSON.parse(choices[0].message.content);
    assert.ok(Number.isInteger(age) && age >= 0 && age <= 99);
});
await test('a wrong key is refused', async () => {
    await assert.rejects(client.withOptions({ apiKey: 'wrong' }).models.list(),
        refused(401, (e) => e instanceof OpenAI.AuthenticationError && e.code === 'invalid_api_key'));
});
await test('a stream that is left can be followed by another request', async () => {
    const stream = await client.completions.create({ model: 'bn', prompt: 'a', max_tokens: 1000, stream: true });
    for await (const chunk of stream) {
        assert.equal(chunk.object, 'text_completion');
        break;
    }
    const again = await client.chat.completions.create(ask);
    assert.equal(again.choices[0].bn.chain, whole.choices[0].bn.chain);
});
await test('many requests at a time get the answers that they get alone', async () => {
    const others = Array.from({ length: 12 }, (_, i) => client.chat.completions.create({ ...ask, seed: i }));
    const answers = await Promise.all(others);
    assert.equal(answers[5].choices[0].bn.chain, whole.choices[0].bn.chain);
});
