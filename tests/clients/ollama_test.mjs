// The npm package `ollama` against a running server: what a program written for Ollama does.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import test from 'node:test';

const require = createRequire(`${process.env.LARES_CLIENTS}/`);
const { Ollama } = require('ollama');
const host = process.env.LARES_URL;
const model = 'starter-chat';
const client = new Ollama({ host });

const user = (content) => [{ role: 'user', content }];
const calm = { model, options: { temperature: 0, num_predict: 100 } };
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

async function running() {
  const text = await (await fetch(`${host}/metrics`)).text();
  return Number(text.split('\n').find((line) => line.startsWith('lares_jobs_running ')).split(' ')[1]);
}

async function until(condition) {
  const end = Date.now() + 60000;
  while (!(await condition())) assert.ok(Date.now() < end, 'never happened');
}

test('chat', async () => {
  const answer = await client.chat({ ...calm, messages: user('How many grams are in 3 kilograms?') });
  assert.match(answer.message.content, /3000/);
  assert.equal(answer.done_reason, 'stop');
  assert.ok(answer.eval_count > 3 && answer.total_duration > 0);
});

test('a stream brings the same text', async () => {
  const ask = { ...calm, messages: user('How do I cook a soft egg?') };
  const whole = await client.chat(ask);
  let text = '', parts = 0, last;
  for await (const part of await client.chat({ ...ask, stream: true })) {
    text += part.message.content;
    last = part;
    ++parts;
  }
  assert.equal(text, whole.message.content);
  assert.ok(last.done && parts > 3);
});

test('generate', async () => {
  const answer = await client.generate({ ...calm, prompt: 'How many grams are in 3 kilograms?' });
  assert.match(answer.response, /3000/);
  let text = '';
  for await (const part of await client.generate({
    ...calm, prompt: 'How many grams are in 3 kilograms?', stream: true,
  })) text += part.response;
  assert.equal(text, answer.response);
});

test('a tool round trip', async () => {
  const messages = user('Turn on the kitchen light');
  const asked = await client.chat({ ...calm, messages, tools: [light] });
  const call = asked.message.tool_calls[0].function;
  assert.equal(call.name, 'set_light');
  assert.deepEqual(call.arguments, { room: 'kitchen', on: true });
  const after = await client.chat({
    ...calm,
    messages: [...messages, asked.message, { role: 'tool', tool_name: 'set_light', content: '{"ok": true}' }],
    tools: [light],
  });
  assert.ok(after.message.content.length > 0);
});

test('structured output', async () => {
  const answer = await client.chat({
    ...calm,
    messages: user('Hello!'),
    format: {
      type: 'object', properties: { mood: { enum: ['good', 'bad'] } }, required: ['mood'],
      additionalProperties: false,
    },
  });
  assert.ok(['good', 'bad'].includes(JSON.parse(answer.message.content).mood));
});

test('embeddings', async () => {
  const input = ['The light is on', 'Bake a cake'];
  const answer = await client.embed({ model, input });
  assert.equal(answer.embeddings.length, 2);
  for (const row of answer.embeddings) assert.ok(Math.abs(Math.hypot(...row) - 1) < 1e-3);
  assert.ok(answer.prompt_eval_count > 0);
  const old = await client.embeddings({ model, prompt: input[0] });
  assert.equal(old.embedding.length, answer.embeddings[0].length);
});

test('models', async () => {
  const { models } = await client.list();
  assert.ok(models.some((entry) => entry.name === model));
  const shown = await client.show({ model });
  assert.ok(shown.capabilities.includes('completion'));
  assert.equal((await client.ps()).models[0].name, model);
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

test('an aborted stream ends its job', async () => {
  const own = new Ollama({ host });
  const stream = await own.chat({
    model, messages: user('Tell me a story'), options: { num_predict: 1800, temperature: 1 }, stream: true,
  });
  const read = async () => {
    for await (const part of stream) {
      if (part) own.abort();
    }
  };
  await assert.rejects(read(), { name: 'AbortError' });
  await until(async () => (await running()) === 0);
});

test('failures', async () => {
  await assert.rejects(client.chat({ model: 'none', messages: user('x') }), (error) => {
    assert.equal(error.name, 'ResponseError');
    assert.equal(error.status_code, 404);
    assert.match(error.message, /none/);
    return true;
  });
  await assert.rejects(client.chat({ model, messages: [{ role: 'user', content: 'x', images: ['AAAA'] }] }),
    (error) => error.status_code === 400 && /images/.test(error.message));
  await assert.rejects(client.pull({ model: 'llama3' }),
    (error) => error.status_code === 501 && /models folder/.test(error.message));
  await assert.rejects(client.delete({ model }), (error) => error.status_code === 501);
});
