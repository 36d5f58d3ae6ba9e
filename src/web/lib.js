// What every view needs: elements, numbers as people read them, the server's answers, colours.

// An element: h('td', {class: 'num', onclick: f}, 'text', child...). Text is text, never markup.
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split('.');
  const el = document.createElement(name);
  if (classes.length) el.className = classes.join(' ');
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) el.addEventListener(key.slice(2), value);
    else if (key === 'class') el.className = value;
    else if (key in el && typeof value !== 'string') el[key] = value;
    else el.setAttribute(key, value === true ? '' : value);
  }
  el.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

// Writes only what is different, so that nothing flickers and nobody's selection is lost.
export function setText(el, text) {
  if (el.textContent !== String(text)) el.textContent = text;
}

// One child of `parent` for each item, kept by key: rows stay, and with them the focus.
export function keyed(parent, items, keyOf, create, update) {
  const old = new Map([...parent.children].map((el) => [el.dataset.key, el]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let el = old.get(key);
    if (el) old.delete(key);
    else {
      el = create(item);
      el.dataset.key = key;
    }
    update(el, item);
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
  }
  for (const el of old.values()) el.remove();
}

export const panel = (title, ...children) =>
  h('section.panel', {}, h('h2', {}, title), ...children);

// ---- numbers ----

export function duration(s) {
  if (s === null || s === undefined || Number.isNaN(s)) return '–';
  if (s < 0.0005) return `${Math.round(s * 1e6)} µs`;
  if (s < 0.9995) return `${s < 0.01 ? (s * 1e3).toFixed(1) : Math.round(s * 1e3)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(s % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i += 1;
  }
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export function count(n) {
  if (n < 10000) return String(Math.round(n));
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)}k`;
  return n < 1e9 ? `${(n / 1e6).toFixed(1)}M` : `${(n / 1e9).toFixed(1)}G`;
}

export const percent = (part) => `${part > 0 && part < 0.0995 ? (part * 100).toFixed(1) : Math.round(part * 100)} %`;

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayFormat = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
export function moment(unix) {
  const date = new Date(unix * 1000);
  return Date.now() - date < 12 * 3600e3 ? clockFormat.format(date) : dayFormat.format(date);
}

// ---- the server ----

export const session = { key: sessionStorage.getItem('lares.key') ?? '', me: null };

export class Refused extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? body?.error ?? `the server answered with status ${status}`);
    this.status = status;
    this.code = body?.error?.code ?? body?.code ?? '';
    this.body = body;
  }
}

export function ask(path, { method = 'GET', body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (session.key) sent.Authorization = `Bearer ${session.key}`;
  if (body !== undefined) sent['Content-Type'] = 'application/json';
  return fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: 'no-store' });
}

export async function json(path, options) {
  const response = await ask(path, options);
  const body = await response.json().catch(() => null);
  if (!response.ok) {
    if (response.status === 401) document.dispatchEvent(new CustomEvent('lares:signed-out'));
    throw new Refused(response.status, body);
  }
  return body;
}

// The events of a stream, each as {event, data}.
export async function* events(path, options) {
  const response = await ask(path, options);
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => null));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = { event: 'message', data: '' };
      for (const line of text.slice(0, end).split('\n')) {
        if (line.startsWith('event: ')) event.event = line.slice(7);
        if (line.startsWith('data: ')) event.data += line.slice(6);
      }
      text = text.slice(end + 2);
      yield event;
    }
  }
}

// Calls `work` now and every `ms`, while somebody looks, until `signal` says that it is over.
// Trouble is shown once and goes when an answer comes.
export function every(ms, signal, work) {
  let timer = 0;
  const turn = async () => {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (!document.hidden) {
      try {
        await work(signal);
        trouble('');
        if (!signal.aborted) ready();
      } catch (error) {
        if (signal.aborted || error.name === 'AbortError') return;
        if (error.status !== 401) trouble(error instanceof Refused ? error.message : 'The server does not answer. Trying again…');
      }
    }
    if (!signal.aborted) timer = setTimeout(turn, ms);
  };
  document.addEventListener('visibilitychange', () => !document.hidden && turn(), { signal });
  turn();
}

// The view shows what there is.
export function ready() {
  const view = document.querySelector('.view');
  if (view) view.dataset.ready = '';
}

export function trouble(text) {
  const el = document.getElementById('trouble');
  setText(el, text);
  el.hidden = !text;
}

// ---- colours ----

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const SLOTS = 8;
const slots = new Map();
// The same name has the same colour on every day, unless two meet in one.
export function slot(name) {
  if (name === null) return null;
  if (!slots.has(name)) {
    let hash = 7;
    for (const c of name) hash = (hash * 31 + c.codePointAt(0)) >>> 0;
    const taken = new Set(slots.values());
    let s = hash % SLOTS;
    for (let i = 0; i < SLOTS && taken.has(s); ++i) s = (s + 1) % SLOTS;
    slots.set(name, s);
  }
  return slots.get(name);
}
export const colour = (name) => css(name === null ? '--others' : `--m${slot(name)}`);
export const swatch = (name) => h('i', { class: `swatch ${name === null ? 'others' : `m${slot(name)}`}`, 'aria-hidden': 'true' });

export const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
};
