// SPDX-License-Identifier: MIT
// Asks bn-serve by OpenAI's own client, as its examples do.
//   openai.mjs URL KEY
import OpenAI from 'openai';
import { assert, refused, test } from './harness.js';

const [, , url, key] = process.argv;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const messages = [{ role: 'user', content: 'Who is there?' }];
const ask = { model: 'bn', messages, max_completion_tokens: 12, seed: 5, temperature: 0.7 };

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

// ---- functions, in chats ----

const city = { type: 'object', properties: { city: { type: 'string', maxLength: 12 }, days: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['city', 'days'], additionalProperties: false };
const weather = { name: 'get_weather', description: 'The weather of the next days.', parameters: city, strict: true };
const tools = [{ type: 'function', function: weather }];
const call = { ...ask, max_completion_tokens: 200, tools, tool_choice: 'required', parallel_tool_calls: false };
const isCity = (text) => {
    const { city, days } = JSON.parse(text);
    assert.ok(typeof city === 'string' && Number.isInteger(days) && days >= 1 && days <= 9, text);
};
let called;
await test('a function is called, with arguments of its schema', async () => {
    called = (await client.chat.completions.create(call)).choices[0];
    assert.equal(called.finish_reason, 'tool_calls');
    assert.equal(called.message.tool_calls.length, 1);
    const [{ id, type, function: f }] = called.message.tool_calls;
    assert.ok(id.startsWith('call_') && type === 'function' && f.name === 'get_weather');
    isCity(f.arguments);
});
await test('the deltas of a call are the call', async () => {
    const seen = [];
    let last;
    for await (const chunk of await client.chat.completions.create({ ...call, stream: true })) {
        seen.push(...(chunk.choices[0].delta.tool_calls ?? []));
        last = chunk.choices[0];
    }
    assert.deepEqual(seen.map((d) => d.index), seen.map(() => 0));
    assert.ok(seen[0].id && seen[0].function.name === 'get_weather' && seen.slice(1).every((d) => !d.id));
    assert.equal(seen.map((d) => d.function.arguments).join(''), called.message.tool_calls[0].function.arguments);
    assert.equal(last.finish_reason, 'tool_calls');
    assert.equal(last.bn.chain, called.bn.chain);
});
await test('the helper that collects a stream has the call', async () => {
    const { choices } = await client.chat.completions.stream(call).finalChatCompletion();
    assert.equal(choices[0].message.tool_calls[0].function.arguments, called.message.tool_calls[0].function.arguments);
});
await test('the helper that runs functions runs one, whose result comes back', async () => {
    const one = { type: 'function', function: { name: 'get_weather' } };
    const got = [];
    const runnable = [{ type: 'function', function: { ...weather, parse: JSON.parse, function: (x) => (got.push(x), 'rain') } }];
    const runner = client.chat.completions.runTools({ ...call, tools: runnable, tool_choice: one });
    await runner.done();
    assert.equal(got.length, 1);
    isCity(JSON.stringify(got[0]));
    assert.deepEqual(runner.messages.map((m) => m.role), ['user', 'assistant', 'tool']);
    const after = await client.chat.completions.create({ ...ask, tools, tool_choice: 'none', messages: runner.messages });
    assert.ok(after.choices[0].finish_reason !== 'tool_calls' && !after.choices[0].message.tool_calls);
});
await test('functions that cannot be called are refused', async () => {
    const bad = { type: 'function', function: { name: 'a b' } };
    for (const [body, param] of [[{ tools: [bad] }, 'tools'], [{ tool_choice: 'required' }, 'tool_choice'],
        [{ tools, tool_choice: { type: 'function', function: { name: 'other' } } }, 'tool_choice'],
        [{ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,' } }] }] }, 'messages']])
        await assert.rejects(client.chat.completions.create({ ...ask, ...body }), refused(400, (e) => e.param === param));
});
await test('an answer of a schema is parsed by the helper', async () => {
    const schema = { type: 'object', properties: { age: { type: 'integer', minimum: 0, maximum: 99 } }, required: ['age'], additionalProperties: false };
    const format = { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } };
    const { choices } = await client.chat.completions.parse({ ...ask, max_tokens: 60, response_format: format });
    assert.equal(JSON.parse(choices[0].message.content).age >= 0, true);
    assert.equal(choices[0].finish_reason, 'stop');
});

// ---- /v1/responses ----

const respond = { model: 'bn', input: 'Who is there?', max_output_tokens: 12, seed: 5, temperature: 0.7 };
let response;
await test('a response is a chat with the same messages', async () => {
    const { data, response: http } = await client.responses.create({ ...respond, metadata: { a: 'b' }, user: 'u' }).withResponse();
    response = data;
    assert.equal(data.object, 'response');
    assert.equal(data.status, 'incomplete');
    assert.equal(data.incomplete_details.reason, 'max_output_tokens');
    assert.equal(data.output_text, whole.choices[0].message.content);
    assert.equal(data.bn.chain, whole.choices[0].bn.chain);
    assert.equal(data.bn.receipt, http.headers.get('x-bn-receipt'));
    assert.deepEqual([data.metadata, data.temperature, data.error, data.tools], [{ a: 'b' }, 0.7, null, []]);
    assert.equal(data.usage.total_tokens, data.usage.input_tokens + data.usage.output_tokens);
    assert.equal(data.usage.output_tokens, whole.usage.completion_tokens);
    const receipt = await client.get(`/receipts/${data.bn.receipt}`);
    assert.equal(receipt.predicate.result.chain, data.bn.chain);
});
await test('its events come in their order', async () => {
    const types = [], numbers = [];
    let text = '', last;
    for await (const event of await client.responses.create({ ...respond, stream: true })) {
        if (event.type !== types.at(-1)) types.push(event.type);
        numbers.push(event.sequence_number);
        if (event.type === 'response.output_text.delta') text += event.delta;
        last = event;
    }
    assert.deepEqual(types, ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
        'response.output_text.delta', 'response.output_text.done', 'response.content_part.done', 'response.output_item.done', 'response.incomplete']);
    assert.deepEqual(numbers, numbers.map((_, i) => i));
    assert.equal(text, response.output_text);
    assert.equal(last.response.bn.chain, response.bn.chain);
});
await test('the helper that collects events agrees', async () => {
    let snapshot;
    const stream = client.responses.stream(respond).on('response.output_text.delta', (e) => { snapshot = e.snapshot; });
    const final = await stream.finalResponse();
    assert.equal(final.output_text, response.output_text);
    assert.equal(snapshot, response.output_text);
    assert.equal(final.bn.chain, response.bn.chain);
});
await test('a response goes on with a past one', async () => {
    const next = await client.responses.create({ ...respond, instructions: 'Be short.', input: [{ role: 'user', content: [{ type: 'input_text', text: 'And now?' }] }], previous_response_id: response.id });
    const chat = await client.chat.completions.create({ ...ask, messages: [{ role: 'system', content: 'Be short.' }, ...messages,
        { role: 'assistant', content: response.output_text }, { role: 'user', content: 'And now?' }] });
    assert.equal(next.bn.chain, chat.choices[0].bn.chain);
    assert.equal(next.previous_response_id, response.id);
    const third = await client.responses.create({ ...respond, previous_response_id: next.id });
    const items = [...messages, ...response.output, { role: 'user', content: 'And now?' }, ...next.output, ...messages];
    assert.equal(third.bn.chain, (await client.responses.create({ ...respond, input: items })).bn.chain);
});
await test('a response is retrieved and deleted', async () => {
    const { _request_id, ...kept } = await client.responses.retrieve(response.id);
    const { _request_id: other, ...first } = response;
    assert.deepEqual(kept, first);
    await client.responses.delete(response.id);
    await assert.rejects(client.responses.retrieve(response.id), refused(404, (e) => e instanceof OpenAI.NotFoundError));
    const { id } = await client.responses.create({ ...respond, store: false });
    await assert.rejects(client.responses.create({ ...respond, previous_response_id: id }), refused(404, (e) => e.code === 'previous_response_not_found'));
});
await test('a response of a schema is parsed by the helper', async () => {
    const format = { type: 'json_schema', name: 'x', strict: true, schema: city };
    const parsed = await client.responses.parse({ ...respond, max_output_tokens: 200, text: { format } });
    assert.equal(parsed.status, 'completed');
    isCity(JSON.stringify(parsed.output_parsed));
});
await test('what a response cannot have is refused by name', async () => {
    const image = [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,' }] }];
    for (const [body, pattern] of [[{ tools: [{ type: 'web_search' }] }, /web_search/], [{ background: true }, /background/], [{ input: image }, /input_image/],
        [{ input: [{ type: 'item_reference', id: 'x' }] }, /item_reference/], [{ text: { format: { type: 'xml' } } }, /text\.format/]])
        await assert.rejects(client.responses.create({ ...respond, ...body }), refused(400, (e) => pattern.test(e.message)));
});
const flat = { ...respond, max_output_tokens: 200, tools: [{ type: 'function', ...weather }], tool_choice: { type: 'function', name: 'get_weather' }, parallel_tool_calls: false };
await test('a response calls a function, and goes on with its result', async () => {
    const first = await client.responses.create(flat);
    const [item] = first.output.filter((i) => i.type === 'function_call');
    assert.equal(first.status, 'completed');
    assert.ok(item.id.startsWith('fc_') && item.call_id.startsWith('call_') && item.name === 'get_weather');
    isCity(item.arguments);
    const result = { type: 'function_call_output', call_id: item.call_id, output: 'rain' };
    const after = await client.responses.create({ ...flat, tool_choice: 'none', max_output_tokens: 12, previous_response_id: first.id, input: [result] });
    assert.ok(after.output.every((i) => i.type !== 'function_call'));
    const chat = await client.chat.completions.create({ ...ask, tools, tool_choice: 'none', messages: [...messages,
        { role: 'assistant', content: null, tool_calls: [{ id: 'x', type: 'function', function: { name: item.name, arguments: item.arguments } }] },
        { role: 'tool', tool_call_id: 'x', content: 'rain' }] });
    assert.equal(after.bn.chain, chat.choices[0].bn.chain);
});
await test('the events of a call come in their order', async () => {
    const types = [];
    const stream = client.responses.stream(flat).on('event', (e) => types.push(e.type));
    const final = await stream.finalResponse();
    assert.deepEqual(types, ['response.created', 'response.in_progress', 'response.output_item.added', 'response.function_call_arguments.delta',
        'response.function_call_arguments.done', 'response.output_item.done', 'response.completed']);
    isCity(final.output[0].arguments);
    assert.deepEqual(final.output[0].parsed_arguments, JSON.parse(final.output[0].arguments));
});
