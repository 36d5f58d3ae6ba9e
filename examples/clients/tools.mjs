// A tool call and back, with the npm package `openai`: node tools.mjs [REQUEST]
// LARES_URL and LARES_KEY say where and who.
import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.LARES_URL ?? 'http://127.0.0.1:8080'}/v1`,
  apiKey: process.env.LARES_KEY ?? 'none',
});

const house = { kitchen: false, hallway: true };
const tools = [{
  type: 'function',
  function: {
    name: 'set_light',
    description: 'Switch a light on or off',
    parameters: {
      type: 'object',
      properties: { room: { type: 'string' }, on: { type: 'boolean' } },
      required: ['room', 'on'],
    },
    parse: JSON.parse,
    function: ({ room, on }) => {
      house[room] = on;
      return JSON.stringify({ ok: true });
    },
  },
}];

const runner = client.chat.completions.runTools({
  model: 'default',
  messages: [{ role: 'user', content: process.argv[2] ?? 'Turn on the kitchen light' }],
  temperature: 0,
  tools,
});
console.log(await runner.finalContent());
console.log(house);
