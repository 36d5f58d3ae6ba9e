// The npm package `openai` against a running server: pictures, made, changed and streamed.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import test from 'node:test';

const require = createRequire(`${process.env.LARES_CLIENTS}/`);
const OpenAI = require('openai');
const url = process.env.LARES_URL;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 5 });
const model = 'starter-image';

// [width, height] of a PNG in base64.
function size(base64) {
  const bytes = Buffer.from(base64, 'base64');
  assert.equal(bytes.subarray(1, 4).toString(), 'PNG');
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
}

async function events(stream) {
  const all = [];
  for await (const event of stream) all.push(event);
  return all;
}

const apple = { model, prompt: 'a red apple', seed: 7 };

test('generate', async () => {
  const answer = await client.images.generate({ ...apple, n: 2, size: '64x64' });
  assert.equal(answer.data.length, 2);
  assert.deepEqual(answer.data.map((image) => size(image.b64_json)), [[64, 64], [64, 64]]);
  assert.notEqual(answer.data[0].b64_json, answer.data[1].b64_json);
  const linked = await client.images.generate({ ...apple, response_format: 'url' });
  const bytes = Buffer.from(await (await fetch(linked.data[0].url)).arrayBuffer());
  assert.equal(bytes.toString('base64'), answer.data[0].b64_json);
});

test('edit', async () => {
  const made = await client.images.generate(apple);
  const file = await OpenAI.toFile(Buffer.from(made.data[0].b64_json, 'base64'), 'apple.png', { type: 'image/png' });
  const edit = { model, image: file, prompt: 'a banana', n: 2, seed: 3, strength: 0.6 };
  const answer = await client.images.edit(edit);
  assert.deepEqual(answer.data.map((image) => size(image.b64_json)), [[64, 64], [64, 64]]);
  assert.deepEqual((await client.images.edit(edit)).data, answer.data);
  await assert.rejects(client.images.edit({ ...edit, image: await OpenAI.toFile(Buffer.from('no picture'), 'a.png') }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === 'image');
});

test('a stream brings previews and then the same picture', async () => {
  const ask = { ...apple, seed: 40, steps: 200 };
  const whole = await client.images.generate({ ...ask, seed: 41 });
  const got = await events(await client.images.generate({ ...ask, stream: true, partial_images: 2 }));
  const last = got.pop();
  assert.equal(last.type, 'image_generation.completed');
  assert.deepEqual(size(last.b64_json), [64, 64]);
  assert.ok(got.length > 0 && got.length <= 2, `${got.length} partial images`);
  got.forEach((event, index) => {
    assert.equal(event.type, 'image_generation.partial_image');
    assert.equal(event.partial_image_index, index);
    size(event.b64_json);
  });
  const again = await client.images.generate(ask);
  assert.equal(again.data[0].b64_json, last.b64_json);
  assert.notEqual(whole.data[0].b64_json, last.b64_json);
});

test('an edit is streamed too', async () => {
  const made = await client.images.generate(apple);
  const image = await OpenAI.toFile(Buffer.from(made.data[0].b64_json, 'base64'), 'apple.png', { type: 'image/png' });
  const got = await events(await client.images.edit({ model, image, prompt: 'a cup', seed: 5, stream: true }));
  assert.deepEqual(got.map((event) => event.type), ['image_edit.completed']);
});

test('error classes', async () => {
  await assert.rejects(client.images.generate({ ...apple, size: 'big' }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === 'size');
  await assert.rejects(client.images.generate({ ...apple, model: 'none' }), OpenAI.BadRequestError);
});
