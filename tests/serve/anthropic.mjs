// SPDX-License-Identifier: MIT
// Asks bn-serve by Anthropic's own client, as its examples do.
//   anthropic.mjs URL KEY
import Anthropic from '@anthropic-ai/sdk';
import { assert, refused, test } from './harness.js';

const [, , url, key] = process.argv;
const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const messages = [{ role: 'user', content: 'Who is there?' }];
const ask = { model: 'bn', max_tokens: 12, temperature: 0.7, seed: 5, messages };
let whole;
await test('a message is answered', async () => {
    whole = await client.messages.create(ask);
    assert.equal(whole.type, 'message');
    assert.equal(whole.role, 'assistant');
    assert.equal(whole.content[0].type, 'text');
    assert.equal(whole.stop_reason, 'max_tokens');
    assert.equal(whole.usage.output_tokens, 12);
    assert.equal(whole._request_id, whole.bn.receipt);
});
await test('a stream has the same text', async () => {
    const message = await client.messages.stream(ask).finalMessage();
    assert.deepEqual(message.content[0].text, whole.content[0].text);
    assert.equal(message.stop_reason, whole.stop_reason);
    assert.equal(message.usage.output_tokens, 12);
});
await test('pieces come one by one', async () => {
    let pieces = 0, last;
    for await (const event of await client.messages.create({ ...ask, stream: true })) {
        pieces += event.type === 'content_block_delta';
        if (event.type === 'message_delta') last = event;
    }
    assert.ok(pieces > 3);
    assert.equal(last.bn.chain, whole.bn.chain);
});
await test('the same question has the chain of the chat API', async () => {
    const reply = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
        body: JSON.stringify(ask),
    });
    assert.equal((await reply.json()).choices[0].bn.chain, whole.bn.chain);
});
await test('tokens are counted', async () => {
    const count = await client.messages.countTokens({ model: 'bn', messages });
    assert.equal(count.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);
});
await test('blocks and a system message are the same as texts', async () => {
    const text = await client.messages.create({ ...ask, system: 'Be brief.' });
    const blocks = await client.messages.create({
        ...ask,
        system: [{ type: 'text', text: 'Be brief.' }],
        messages: [{ role: 'user', content: [{ type: 'text', text: 'Who is' }, { type: 'text', text: ' there?' }] }],
    });
    assert.equal(blocks.bn.chain, text.bn.chain);
    assert.notEqual(blocks.bn.chain, whole.bn.chain);
});
await test('a stop sequence is named', async () => {
    const stop = whole.content[0].text.slice(3, 7);
    const message = await client.messages.create({ ...ask, stop_sequences: ['never said', stop] });
    assert.equal(message.stop_reason, 'stop_sequence');
    assert.equal(message.stop_sequence, stop);
    assert.equal(message.content[0].text, whole.content[0].text.slice(0, 3));
});
await test('what is not supported is refused by name', async () => {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } };
    await assert.rejects(client.messages.create({ ...ask, messages: [{ role: 'user', content: [image] }] }),
        refused(400, (e) => /type image/.test(e.message)));
    await assert.rejects(client.messages.create({ ...ask, tools: [{ type: 'web_search_20250305', name: 'web_search' }] }),
        refused(400, (e) => /tools/.test(e.message)));
    const { max_tokens, ...without } = ask;
    await assert.rejects(client.messages.create(without), refused(400, (e) => /max_tokens/.test(e.message)));
});
await test('errors have their types', async () => {
    await assert.rejects(new Anthropic({ baseURL: url, apiKey: 'wrong', maxRetries: 0 }).messages.create(ask),
        refused(401, (e) => e instanceof Anthropic.AuthenticationError && e.error.error.type === 'authentication_error'));
    await assert.rejects(client.messages.create({ ...ask, messages: [] }),
        refused(400, (e) => e instanceof Anthropic.BadRequestError));
});
await test('a stream can be given up', async () => {
    const stream = client.messages.stream({ ...ask, max_tokens: 500 });
    stream.on('text', () => stream.abort());
    await assert.rejects(stream.finalMessage(), (e) => e instanceof Anthropic.APIUserAbortError);
});
