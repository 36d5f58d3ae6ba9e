// The npm package `openai` against a running server: what a program written for OpenAI does.
import assert from 'node:assert/strict';
import http from 'node:http';
import { createRequire } from 'node:module';
import test from 'node:test';

const require = createRequire(`${process.env.LARES_CLIENTS}/`);
const OpenAI = require('openai');
const url = process.env.LARES_URL;
const model = 'starter-chat';
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

const user = (content) => [{ role: 'user', content }];
const calm = { model, temperature: 0, max_tokens: 100 };
const light = {
  type: 'function',
  function: {
    name: 'set_light',
    description: 'Switch a light on or off',
    parameters: {
      type: 'object',
      properties: { room: { type: 'string' }, on: { type: 'boolean' } },
      required: ['room', 'on'],
    },
  },
};

// The value of one series of /metrics.
async function metric(name) {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(text.split('\n').find((line) => line.startsWith(`${name} `)).split(' ')[1]);
}

async function until(condition) {
  const end = Date.now() + 60000;
  while (!(await condition())) assert.ok(Date.now() < end, 'never happened');
}

test('chat', async () => {
  const answer = await client.chat.completions.create({
    ...calm, messages: user('How many grams are in 3 kilograms?'),
  });
  assert.match(answer.choices[0].message.content, /3000/);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test('a stream brings the same text', async () => {
  const ask = { ...calm, messages: user('How do I cook a soft egg?') };
  const whole = await client.chat.completions.create(ask);
  const stream = await client.chat.completions.create({
    ...ask, stream: true, stream_options: { include_usage: true },
  });
  let text = '', chunks = 0, usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
    ++chunks;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.ok(chunks > 3);
});

test('completions', async () => {
  const answer = await client.completions.create({ ...calm, prompt: 'Once upon a time', max_tokens: 5 });
  assert.ok(answer.choices[0].text.length > 0);
  assert.equal(answer.choices[0].finish_reason, 'length');
});

test('a tool round trip', async () => {
  const messages = user('Turn on the kitchen light');
  const asked = await client.chat.completions.create({ ...calm, messages, tools: [light] });
  const call = asked.choices[0].message.tool_calls[0];
  assert.equal(asked.choices[0].finish_reason, 'tool_calls');
  assert.deepEqual(JSON.parse(call.function.arguments), { room: 'kitchen', on: true });
  const after = await client.chat.completions.create({
    ...calm,
    messages: [...messages, asked.choices[0].message,
      { role: 'tool', tool_call_id: call.id, content: '{"ok": true}' }],
    tools: [light],
  });
  assert.equal(after.choices[0].finish_reason, 'stop');
  assert.ok(after.choices[0].message.content.length > 0);
});

test('a streamed tool call', async () => {
  const runner = client.chat.completions.stream({
    ...calm, messages: user('Turn on the kitchen light'), tools: [light],
  });
  let deltas = 0;
  runner.on('tool_calls.function.arguments.delta', () => ++deltas);
  const answer = await runner.finalChatCompletion();
  const call = answer.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, 'set_light');
  assert.deepEqual(JSON.parse(call.function.arguments), { room: 'kitchen', on: true });
  assert.ok(deltas > 2);
});

test('tools run by the package', async () => {
  const switched = [];
  const runner = client.chat.completions.runTools({
    ...calm,
    messages: user('Turn on the kitchen light'),
    tools: [{
      type: 'function',
      function: {
        ...light.function,
        parse: JSON.parse,
        function: (wish) => {
          switched.push(wish);
          return '{"ok": true}';
        },
      },
    }],
  });
  assert.ok((await runner.finalContent()).length > 0);
  assert.deepEqual(switched, [{ room: 'kitchen', on: true }]);
});

test('a tool that must be called', async () => {
  const answer = await client.chat.completions.create({
    ...calm, messages: user('Hello!'), tools: [light], tool_choice: 'required',
  });
  assert.equal(answer.choices[0].message.tool_calls[0].function.name, 'set_light');
});

test('structured output', async () => {
  const answer = await client.chat.completions.parse({
    ...calm,
    messages: user('Hello!'),
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 'mood',
        strict: true,
        schema: {
          type: 'object',
          properties: { mood: { enum: ['good', 'bad'] }, level: { type: 'integer', minimum: 0, maximum: 9 } },
          required: ['mood', 'level'],
          additionalProperties: false,
        },
      },
    },
  });
  const got = JSON.parse(answer.choices[0].message.content);
  assert.ok(['good', 'bad'].includes(got.mood));
  assert.ok(got.level >= 0 && got.level <= 9);
});

test('a format beside tools: the answer keeps it, or is a call', async () => {
  const mood = {
    type: 'json_schema',
    json_schema: {
      name: 'mood',
      schema: {
        type: 'object', properties: { mood: { enum: ['good', 'bad'] } },
        required: ['mood'], additionalProperties: false,
      },
    },
  };
  const ask = (content) => client.chat.completions.create({
    ...calm, messages: user(content), tools: [light], response_format: mood,
  });
  const called = (await ask('Turn on the kitchen light')).choices[0];
  assert.equal(called.finish_reason, 'tool_calls');
  assert.deepEqual(JSON.parse(called.message.tool_calls[0].function.arguments),
    { room: 'kitchen', on: true });
  const said = (await client.chat.completions.create({
    ...calm,
    messages: [...user('Turn on the kitchen light'), called.message,
      { role: 'tool', tool_call_id: called.message.tool_calls[0].id, content: '{"ok": true}' }],
    tools: [light],
    response_format: mood,
  })).choices[0].message;
  assert.ok(said.tool_calls?.length > 0 || ['good', 'bad'].includes(JSON.parse(said.content).mood));
});

test('embeddings', async () => {
  const input = ['The light is on', 'La luz está encendida', 'Bake a cake'];
  const answer = await client.embeddings.create({ model, input });
  assert.deepEqual(answer.data.map((one) => one.index), [0, 1, 2]);
  const rows = answer.data.map((one) => one.embedding);
  for (const row of rows) assert.ok(Math.abs(Math.hypot(...row) - 1) < 1e-3);
  const floats = await client.embeddings.create({ model, input: input[0], encoding_format: 'float' });
  assert.equal(floats.data[0].embedding.length, rows[0].length);
  floats.data[0].embedding.forEach((x, i) => assert.ok(Math.abs(x - rows[0][i]) < 0.02));
  const short = await client.embeddings.create({ model, input: input[0], dimensions: 16 });
  assert.equal(short.data[0].embedding.length, 16);
  assert.ok(answer.usage.prompt_tokens > 0);
  await assert.rejects(client.embeddings.create({ model, input: '' }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'input');
    return true;
  });
});

test('models', async () => {
  const names = [];
  for await (const entry of client.models.list()) names.push(entry.id);
  assert.ok(names.includes(model));
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve('none'), OpenAI.NotFoundError);
});

test('an aborted stream ends its job', async () => {
  const before = await metric('lares_jobs_running');
  const stream = await client.chat.completions.create({
    model, messages: user('Tell me a story'), max_tokens: 1800, ignore_eos: true, stream: true,
  });
  let chunks = 0;
  for await (const chunk of stream) {
    if (chunk && ++chunks === 5) stream.controller.abort();
  }
  await until(async () => (await metric('lares_jobs_running')) === before);
});

test('an aborted request is an APIUserAbortError', async () => {
  const controller = new AbortController();
  const asked = client.chat.completions.create({
    model, messages: user('Tell me a story'), max_tokens: 1800, ignore_eos: true,
  }, { signal: controller.signal });
  await until(async () => (await metric('lares_jobs_running')) > 0);
  controller.abort();
  await assert.rejects(asked, OpenAI.APIUserAbortError);
  await until(async () => (await metric('lares_jobs_running')) === 0);
});

test('error classes', async () => {
  const ask = (fields) => client.chat.completions.create({ ...calm, messages: user('Hello'), ...fields });
  await assert.rejects(ask({ model: 'none' }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    return true;
  });
  await assert.rejects(ask({ temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    assert.match(error.message, /between 0 and 2/);
    return true;
  });
  await assert.rejects(ask({ messages: user('word '.repeat(5000)) }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, 'context_length_exceeded');
    return true;
  });
  const foreign = new OpenAI({
    baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, defaultHeaders: { Origin: 'https://example.org' },
  });
  await assert.rejects(foreign.models.list(), OpenAI.PermissionDeniedError);
  const nobody = new OpenAI({ baseURL: 'http://127.0.0.1:1/v1', apiKey: 'none', maxRetries: 0 });
  await assert.rejects(nobody.models.list(), OpenAI.APIConnectionError);
});

test('what is busy is tried again', async () => {
  let refused = 0;
  const front = http.createServer((request, response) => {
    if (refused++ < 2) {  // As the server itself says it.
      response.writeHead(503, { 'Content-Type': 'application/json', 'Retry-After': '0' });
      return response.end('{"error":{"message":"not yet","type":"server_error","code":"unavailable"}}');
    }
    const onward = http.request(`${url}${request.url}`, { method: request.method, headers: {
      'content-type': 'application/json', 'content-length': request.headers['content-length'] ?? 0,
    } }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  await new Promise((ready) => front.listen(0, '127.0.0.1', ready));
  try {
    const patient = new OpenAI({
      baseURL: `http://127.0.0.1:${front.address().port}/v1`, apiKey: 'none', maxRetries: 3,
    });
    const answer = await patient.chat.completions.create({ ...calm, messages: user('Hello') });
    assert.ok(answer.choices[0].message.content.length > 0);
    assert.equal(refused, 3);
  } finally {
    front.closeAllConnections();
    front.close();
  }
});
