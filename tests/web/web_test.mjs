// The dashboard in a real browser. web_test.py starts the servers and names them in the environment.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import path from 'node:path';

const { LARES_URL: URL_, LARES_HOME_URL: HOME, LARES_CLIENTS: CLIENTS, LARES_CHROMIUM: CHROMIUM, LARES_PICTURES: PICTURES } = process.env;
const KEYS = { ana: process.env.LARES_KEY_ANA, ben: process.env.LARES_KEY_BEN, keeper: process.env.LARES_KEY_KEEPER };
const require = createRequire(path.join(CLIENTS, 'package.json'));
const { chromium } = require('playwright-core');
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const VIEWS = ['now', 'people', 'jobs', 'sketch', 'models', 'settings'];
const APPLE = '"a red apple" | encode | sample 20 seed 7 | out png\n';
const PATIENCE = 60_000;

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: CHROMIUM, headless: true, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
});
after(() => browser?.close());

// A page of its own that notes what goes wrong and where requests go.
async function open(options = {}, url = URL_) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const wrong = [], hosts = new Set(), answers = [];
  page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('request', (request) => /^https?:/.test(request.url()) && hosts.add(new URL(request.url()).host));
  page.on('response', (response) => answers.push(response));
  await page.goto(url);
  return { page, context, wrong, answers, async close() {
    await context.close();
    assert.deepEqual(wrong, [], 'the console says');
    assert.deepEqual([...hosts], [new URL(url).host], 'requests to other hosts');
  } };
}

async function signIn(page, name) {
  await page.getByLabel('Key', { exact: true }).fill(KEYS[name]);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'The device' }).waitFor();
}

async function enter(name, options) {
  const opened = await open(options);
  await signIn(opened.page, name);
  return opened;
}

async function view(page, name) {
  await page.locator(`nav a[href="#${name}"]`).click();
  await page.locator(`.view.${name}`).waitFor();
}

const post = (name, where, body, options = {}) => fetch(URL_ + where, {
  method: 'POST', ...options, body: JSON.stringify(body),
  headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${KEYS[name]}`, ...options.headers },
});
const chat = (name, fields = {}, options) => post(name, '/v1/chat/completions',
  { messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 8, ignore_eos: true, ...fields }, options);
const finished = async (response) => {
  assert.equal(response.status, 200);
  await response.text();
};

test('the first paint is small, and comes compressed', async () => {
  const { page, answers, close } = await open({}, HOME);
  await page.getByRole('heading', { name: 'The device' }).waitFor();
  const files = answers.filter((r) => /\/(web\/.*)?$/.test(new URL(r.url()).pathname) && !r.url().endsWith('/door'));
  let bytes = 0;
  for (const response of files) {
    const headers = await response.allHeaders();
    bytes += Number(headers['content-length']);
    assert.equal(headers['content-encoding'], 'gzip', response.url());
    assert.match(headers['content-security-policy'], /default-src 'none'; script-src 'self'/);
  }
  assert.ok(files.length >= 5, `${files.length} files`);
  assert.ok(bytes > 5000 && bytes < 100_000, `${bytes} bytes`);
  await close();
});

test('at home nobody signs in', async () => {
  const { page, close } = await open({}, HOME);
  await page.getByText('home', { exact: true }).waitFor();
  await page.locator('#health', { hasText: 'ready' }).waitFor();
  await view(page, 'settings');
  await page.getByText('Address and port to serve on').waitFor();
  await close();
});

test('elsewhere a key opens the door, and a wrong one says so', async () => {
  const { page, wrong, close } = await open();
  await page.getByRole('heading', { name: 'Whose turn is it?' }).waitFor();
  await page.getByLabel('Key', { exact: true }).fill(`${KEYS.ana}x`);
  await page.keyboard.press('Enter');
  await page.getByText('not the key of a member').waitFor();
  wrong.splice(0);  // The browser notes the 401.
  await signIn(page, 'ana');
  await page.getByText('ana', { exact: true }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'The device' }).waitFor();  // The key is kept in the tab.
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Whose turn is it?' }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await close();
});

test('a stream is watched live and cancelled', async () => {
  const { page, close } = await enter('ana');
  const stream = chat('ana', { max_tokens: 1900, n: 16, stream: true });  // Long enough on any machine.
  assert.equal((await stream).status, 200);
  const facts = page.locator('.streams .facts').first();
  await facts.waitFor();
  const tokens = async () => Number(await facts.getAttribute('data-tokens'));
  const first = await tokens();
  await page.waitForFunction((n) => Number(document.querySelector('.streams .facts')?.dataset.tokens) > n, first);
  await page.locator('.strip .legend', { hasText: 'ana' }).waitFor();
  await page.locator('.strip canvas').focus();
  await page.keyboard.press('ArrowLeft');
  await page.getByText(/ago, starter-chat: .*ana \(chat\)/).waitFor();
  await page.locator('.streams').getByRole('button', { name: 'Cancel' }).first().click();
  await page.getByText('Nothing runs.').waitFor();
  const text = await (await stream).text();
  assert.match(text, /cancelled/);
  await close();
});

test('others are nobody for a member, and somebody for an admin', async () => {
  await Promise.all(['ana', 'ben'].map(async (name) => finished(await chat(name))));
  const ana = await enter('ana');
  await finished(await chat('ben', { max_tokens: 64 }));
  await ana.page.locator('.strip .legend', { hasText: 'others' }).waitFor();
  await view(ana.page, 'people');
  await ana.page.locator('.people tbody', { hasText: 'others' }).waitFor();
  await view(ana.page, 'jobs');
  await ana.page.locator('.jobs tbody tr').first().waitFor();
  assert.doesNotMatch(await ana.page.locator('body').innerText(), /\bben\b/);
  await ana.close();
  const keeper = await enter('keeper');
  await keeper.page.locator('.strip .legend', { hasText: 'ben' }).waitFor();
  await view(keeper.page, 'people');
  await keeper.page.locator('.people tbody tr', { hasText: 'ben' }).waitFor();
  await keeper.page.locator('.people .plot canvas').waitFor();
  await view(keeper.page, 'settings');
  await keeper.page.getByLabel('Find a setting').fill('drain');
  await keeper.page.getByText('How long what runs may go on').waitFor();
  await keeper.close();
});

test('a sketch is edited, faulted, run, seen and cancelled', async () => {
  const { page, close } = await enter('ana');
  await view(page, 'sketch');
  const editor = page.getByLabel('Sketch', { exact: true });
  await editor.fill('"a red apple" | encode | sampel 20 seed 7 | out png\n');
  const fault = page.locator('.faults button').first();
  await fault.waitFor();
  assert.match(await fault.innerText(), /line 1, column 26[\s\S]*sample/);
  assert.equal(await page.getByRole('button', { name: 'Run' }).isDisabled(), true);
  await fault.click();
  assert.equal(await editor.evaluate((e) => e.value.slice(e.selectionStart, e.selectionEnd)), 'sampel');
  await editor.fill(APPLE.replace('sample 20', 'sample 60'));
  await page.locator('.work tbody tr', { hasText: 'sample' }).waitFor();
  await page.locator('button:enabled', { hasText: 'Run' }).waitFor();
  await page.keyboard.press('Control+Enter');
  const picture = page.locator('.stage .pictures img[alt^="Result 1"]');
  await picture.waitFor();
  assert.equal(await picture.evaluate((img) => img.decode().then(() => img.naturalWidth)), 64);
  assert.ok(Number(await page.locator('.stage').getAttribute('data-previews')) >= 1, 'previews came');
  await page.locator('.work tbody tr', { hasText: 'cached' }).first().waitFor();  // A new price.

  await editor.fill('c = "a house" | encode\nout (sample c 500 seed [1 2 3 4]) png\n');
  await page.locator('.verdict', { hasNotText: 'cache' }).waitFor();
  await page.locator('.work tbody tr', { hasText: 'c = encode' }).waitFor();
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByText(/Step \d+ of/).waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('[data-status="cancelled"]').waitFor();
  await close();
});

test('a job shows its clocks and its result', async () => {
  const made = await (await post('ana', '/v1/jobs', { request: { path: '/v1/chat/completions', body: {
    messages: [{ role: 'user', content: 'How many grams are in 3 kilograms?' }], temperature: 0 } } })).json();
  const { page, close } = await enter('ana');
  await view(page, 'jobs');
  const row = page.locator('.jobs tbody tr.rows').first();
  await row.waitFor();
  await page.waitForFunction(async ([url, key, id]) => (await (await fetch(`/v1/jobs/${id}`, { headers: { Authorization: `Bearer ${key}` } })).json()).state === 'done',
    [URL_, KEYS.ana, made.id]);
  await page.reload();
  await page.locator('.view.jobs').waitFor();
  await row.getByRole('button').click();
  await page.locator('.detail', { hasText: made.id }).waitFor();
  for (const clock of ['waits its turn', 'reads', 'writes', 'whole']) await page.locator('.fall', { hasText: clock }).waitFor();
  await page.locator('.result', { hasText: '3000' }).waitFor();
  await close();
});

test('models say why they are held', async () => {
  const { page, close } = await enter('ana');
  await view(page, 'models');
  const card = page.locator('.cards .panel[data-key="starter-chat"]');
  await card.getByText('It stays while there is room.').waitFor();
  assert.match(await card.innerText(), /Loading took\s+[\d.]+ (ms|s)/);
  await close();
});

test('keys 1 to 6 choose a view, dark follows the system and the switch', async () => {
  const { page, close } = await enter('ana', { colorScheme: 'dark' });
  const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const night = await paper();
  await page.emulateMedia({ colorScheme: 'light' });
  const day = await paper();
  assert.notEqual(night, day);
  await page.getByRole('button', { name: 'Switch to dark' }).click();
  assert.equal(await paper(), night);
  await page.reload();
  assert.equal(await paper(), night, 'it is remembered');
  await page.locator('.view.now').waitFor();
  for (const [i, name] of VIEWS.entries()) {
    await page.keyboard.press(String(i + 1));
    await page.locator(`.view.${name}`).waitFor();
    assert.equal(await page.locator('nav a[aria-current]').innerText(), name[0].toUpperCase() + name.slice(1));
  }
  await close();
});

for (const [what, options] of [['a desk', {}], ['a desk at night', { colorScheme: 'dark' }],
  ['a phone', { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 }]]) {
  test(`no view has a serious fault for anybody, on ${what}`, async () => {
    const { page, close } = await enter('keeper', options);
    for (const name of VIEWS) {
      await view(page, name);
      await page.locator(`.view.${name}[data-ready]`).waitFor();
      const wide = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide[0] <= wide[1], `${name} is ${wide[0]} wide on ${wide[1]}`);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const serious = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
        .map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`);
      assert.deepEqual(serious, [], name);
    }
    await close();
  });
}

test('pictures for the documents', { skip: !PICTURES }, async () => {
  const { takePictures } = await import('./pictures.mjs');
  await takePictures({ enter, view, chat, post, directory: PICTURES });
});
