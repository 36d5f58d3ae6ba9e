// The frame: who looks, which view, dark or light.
import { h, json, session, setText, dark } from './lib.js';

const VIEWS = ['now', 'people', 'jobs', 'sketch', 'models', 'settings'];
const $ = (id) => document.getElementById(id);
let leave = new AbortController();

// ---- dark and light ----
const stored = localStorage.getItem('lares.theme');
if (stored) document.documentElement.dataset.theme = stored;
function showTheme() {
  $('theme').textContent = dark() ? '☀' : '☾';
  $('theme').setAttribute('aria-label', dark() ? 'Switch to light' : 'Switch to dark');
  document.dispatchEvent(new CustomEvent('lares:theme'));
}
$('theme').addEventListener('click', () => {
  document.documentElement.dataset.theme = dark() ? 'light' : 'dark';
  localStorage.setItem('lares.theme', document.documentElement.dataset.theme);
  showTheme();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showTheme);
showTheme();

// ---- the door ----
function signIn(message = '') {
  leave.abort();
  $('views').hidden = true;
  setText($('member'), '');
  setText($('health'), 'sign in');
  $('door').hidden = true;
  const key = h('input', { id: 'key', type: 'password', autocomplete: 'current-password', required: true, spellcheck: 'false' });
  const wrong = h('p.wrong', { role: 'alert' }, message);
  const form = h('form.card', {
    onsubmit: async (event) => {
      event.preventDefault();
      const response = await fetch('/v1/me', { headers: { Authorization: `Bearer ${key.value.trim()}` } });
      const body = await response.json().catch(() => null);
      if (!response.ok || !body?.key) {
        setText(wrong, body?.error?.message ?? 'This is not the key of a member here.');
        key.select();
        return;
      }
      session.key = key.value.trim();
      sessionStorage.setItem('lares.key', session.key);
      enter(body);
    },
  },
  h('h1', {}, 'Whose turn is it?'),
  h('p', {}, 'Sign in with your key. It stays in this tab alone, and is forgotten when the tab is closed.'),
  h('label', { for: 'key' }, 'Key'), key,
  h('button.primary', { type: 'submit' }, 'Sign in'), wrong,
  h('p.hint', {}, 'Whoever keeps the server makes keys: ', h('code', {}, 'lares member add NAME')));
  $('main').replaceChildren(form);
  key.focus();
}

document.addEventListener('lares:signed-out', () => {
  session.key = '';
  session.me = null;
  sessionStorage.removeItem('lares.key');
  signIn('Your key does not open this server any more.');
});

async function start() {
  const { keyless } = await (await fetch('/web/door')).json();
  session.keyless = keyless;
  if (!keyless && !session.key) return signIn();
  enter(await json('/v1/me'));
}

function enter(me) {
  session.me = me;
  $('views').hidden = false;
  setText($('member'), me.name);
  $('member').title = me.admin ? 'an admin: sees everybody' : 'sees their own, and the others as nobody';
  const door = $('door');
  door.hidden = false;
  door.textContent = session.key ? 'Sign out' : 'Sign in';
  door.onclick = () => {
    if (!session.key) return signIn();
    session.key = '';
    sessionStorage.removeItem('lares.key');
    location.reload();
  };
  show();
}

// ---- views ----
async function show() {
  if (!session.me) return;
  const wanted = location.hash.slice(1).split('/')[0];
  if (wanted === 'main') return;  // The way past the head of the page.
  const name = VIEWS.includes(wanted) ? wanted : 'now';
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  for (const link of $('views').children) {
    const here = link.hash === `#${name}`;
    here ? link.setAttribute('aria-current', 'page') : link.removeAttribute('aria-current');
  }
  document.title = `Lares: ${name}`;
  const view = await import(`./${name}.js`);
  if (signal.aborted) return;
  const root = h('div', { class: `view ${name}` });
  $('main').replaceChildren(root);
  view.show(root, signal);
  health().catch(() => {});
  const timer = setInterval(() => document.hidden || health().catch(() => {}), 5000);
  signal.addEventListener('abort', () => clearInterval(timer));
}

async function health() {
  const response = await fetch('/v1/models', { headers: session.key ? { Authorization: `Bearer ${session.key}` } : {} });
  const { data = [] } = await response.json();
  const ready = data.some((model) => model.state === 'ready');
  const loading = data.some((model) => model.state === 'loading' || model.state === 'probing');
  setText($('health'), ready ? 'ready' : loading ? 'loading' : 'no model loaded');
  $('health').dataset.state = ready ? 'ready' : 'waits';
}

addEventListener('hashchange', show);
addEventListener('keydown', (event) => {
  const busy = event.target.closest?.('input, textarea, select, [contenteditable]');
  if (busy || event.ctrlKey || event.metaKey || event.altKey || !session.me) return;
  const index = '123456'.indexOf(event.key);
  if (event.key.length === 1 && index >= 0) {
    location.hash = VIEWS[index];
    $('main').focus({ preventScroll: true });
  }
});

start().catch((error) => signIn(error.message));
