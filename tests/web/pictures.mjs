// Pictures of the pages for docs/dashboard.md: `python3 tests/web/web_test.py docs/pictures`.
import path from 'node:path';

// A household at work for a while: streams, an agent's batch, a picture.
function evening({ chat, post }) {
  const asked = [];
  const keep = (promise) => asked.push(promise.then((r) => r.text()).catch(() => {}));
  const words = 'Tell me about the house. '.repeat(30);
  const turn = () => {
    keep(chat('ana', { max_tokens: 150, messages: [{ role: 'user', content: words }] }));
    for (let i = 0; i < 3; ++i) keep(chat('ben', { max_tokens: 60 }, { headers: { 'X-Lares-Class': 'agent', 'X-Lares-Task': 'tidy' } }));
    keep(post('keeper', '/v1/sketches', { sketch: `c = "a green tree" | encode\nout (sample c 20 seed ${asked.length + 1}) png\n` }));
    keep(post('keeper', '/v1/embeddings', { input: Array.from({ length: 6 }, (_, i) => `${i} ${words}`) }));
  };
  turn();
  const timer = setInterval(turn, 6000);
  return async () => {
    clearInterval(timer);
    await Promise.all(asked);
  };
}

export async function takePictures({ enter, view, chat, post, directory }) {
  const shot = (page, name, options = {}) => page.screenshot({ path: path.join(directory, `${name}.png`), ...options });
  const low = { viewport: { width: 1280, height: 740 } };  // Small enough to be kept.
  const desk = await enter('keeper', low);
  const over = evening({ chat, post });
  await desk.page.waitForTimeout(30_000);
  await desk.page.locator('.streams li').first().waitFor();
  await shot(desk.page, 'now');
  const night = await enter('keeper', { ...low, colorScheme: 'dark' });
  await night.page.waitForTimeout(3000);
  await shot(night.page, 'now-dark');
  const phone = await enter('ana', { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 1.5 });
  await phone.page.waitForTimeout(3000);
  await shot(phone.page, 'phone');
  await over();
  await view(night.page, 'people');
  await night.page.locator('.plot canvas').waitFor();
  await night.page.waitForTimeout(1000);
  await shot(night.page, 'people-dark');
  await view(desk.page, 'jobs');
  await desk.page.locator('.jobs tr.rows button').first().waitFor();
  await desk.page.locator('.jobs tr.rows', { hasText: 'agent' }).first().getByRole('button').click();
  await desk.page.locator('.fall').waitFor();
  await desk.page.waitForTimeout(500);
  await shot(desk.page, 'jobs');
  await view(desk.page, 'sketch');
  await desk.page.getByLabel('Examples').selectOption('2');
  await desk.page.locator('button:enabled', { hasText: 'Run' }).waitFor();
  await desk.page.keyboard.press('Tab');
  await desk.page.getByRole('button', { name: 'Run' }).click();
  await desk.page.locator('.stage .pictures img[alt^="Result 2"]').waitFor();
  await desk.page.waitForTimeout(1000);
  await shot(desk.page, 'sketch');
  await view(desk.page, 'models');
  await desk.page.waitForTimeout(1000);
  await shot(desk.page, 'models');
  for (const opened of [desk, night, phone]) await opened.close();
}
