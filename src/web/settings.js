// Settings: what this server was told, to be read and not to be changed.
import { h, json, panel, ready, session } from './lib.js';

export async function show(root, signal) {
  const find = h('input', { type: 'search', placeholder: 'Find', 'aria-label': 'Find a setting' });
  const list = h('div', {});
  root.append(h('div.row', {}, h('h1', {}, 'Settings'), find),
    h('p.muted', {}, 'They come from the configuration file and from flags; change them there and start the server again. ',
      h('code', {}, 'lares serve --help'), ' says the same.'), list);
  let answer;
  const closed = 'Whoever has an admin’s key sees them.';
  if (!session.keyless && !session.me.admin) return list.append(h('p.empty', {}, closed));
  try {
    answer = await json('/v1/settings', { signal });
  } catch (error) {
    if (!signal.aborted) list.append(h('p.empty', {}, error.message));
    return;
  }
  const draw = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sections = new Map();
    for (const s of answer.data) {
      const text = `${s.key} ${s.meaning} ${s.value}`.toLowerCase();
      if (!words.every((w) => text.includes(w))) continue;
      const name = s.key.split('.')[0];
      if (!sections.has(name)) sections.set(name, []);
      sections.get(name).push(s);
    }
    list.replaceChildren(...[...sections].map(([name, settings]) => panel(name, ...settings.map(row))));
    if (!sections.size) list.append(h('p.empty', {}, 'No setting has these words.'));
  };
  find.addEventListener('input', draw, { signal });
  draw();
  ready();
}

function row(s) {
  const changed = s.default !== '' && plain(s.value) !== plain(s.default);
  const range = s.range ? ` ${s.range.charAt(0).toUpperCase()}${s.range.slice(1)}.` : '';
  return h('div', { class: changed ? 'setting changed' : 'setting' },
    h('p.mono', {}, s.key.split('.').slice(1).join('.')),
    h('p.value.mono', {}, s.value === '' ? '–' : s.value),
    h('div', {}, h('p', {}, s.meaning), h('p.hint', {}, `${s.reason}${range}${s.default && changed ? ` Default: ${s.default}.` : ''}`)));
}

// "10.00 s" and "10s" are the same.
function plain(text) {
  const number = /^([\d.]+)\s*([a-zA-Zµ]*)$/.exec(text.replaceAll(' ', ''));
  if (!number) return text.replaceAll(' ', '');
  const units = { us: 1e-6, ms: 1e-3, s: 1, m: 60, min: 60, h: 3600, d: 86400, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };
  return String(Number((Number(number[1]) * (units[number[2]] ?? 1)).toPrecision(6)));
}
