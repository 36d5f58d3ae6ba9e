// Jobs: everything that was asked for and is over, with its clocks, in pages; and what the journal
// still has before it.
import { h, json, ask, every, keyed, setText, panel, duration, count, moment, session, swatch } from './lib.js';

export function show(root, signal) {
  const open = h('tbody', {});
  const openPanel = h('section.panel', { hidden: true }, h('h2', {}, 'Under way, kept in the journal'),
    table(openColumns(), 'Jobs of the journal that are not over', open));
  const body = h('tbody', {});
  const more = h('button', { type: 'button', hidden: true }, 'Earlier ones');
  const empty = h('p.empty', { hidden: true }, 'Nothing has ended yet.');
  const columns = [...(session.me.admin ? ['member'] : []), 'ended', 'class', 'model', 'tokens', 'device', 'waited', 'whole', 'outcome'];
  root.append(h('h1.hidden', {}, 'Jobs'), openPanel,
    panel('Over', empty, table(columns, 'Requests that are over, the newest first', body), more));

  let rows = [], oldest = null, hasMore = false;
  const draw = () => {
    const list = rows.flatMap((r) => (r.open ? [r, { detail: r }] : [r]));
    keyed(body, list, (r) => (r.detail ? `d${r.detail.n}` : r.n), (r) => (r.detail ? detail(r.detail, columns.length, signal) : line(r, toggle)), (el, r) => {
      if (!r.detail) {
        el.classList.toggle('open', Boolean(r.open));
        el.querySelector('button').setAttribute('aria-expanded', r.open ? 'true' : 'false');
      }
    });
    empty.hidden = rows.length > 0;
    more.hidden = !hasMore;
  };
  const toggle = (r) => {
    r.open = !r.open;
    draw();
  };
  const merge = (data) => {
    const known = new Map(rows.map((r) => [r.n, r]));
    for (const r of data) if (!known.has(r.n)) known.set(r.n, r);
    rows = [...known.values()].sort((a, b) => b.n - a.n);
  };
  more.addEventListener('click', async () => {
    more.disabled = true;
    const answer = await json(`/v1/usage/requests?limit=50&before=${oldest}`, { signal });
    merge(answer.data);
    [oldest, hasMore] = [answer.next, answer.has_more];
    more.disabled = false;
    draw();
  }, { signal });
  every(3000, signal, async () => {
    const answer = await json('/v1/usage/requests?limit=50', { signal });
    if (oldest === null) [oldest, hasMore] = [answer.next, answer.has_more];
    merge(answer.data);
    draw();
    await underWay(open, openPanel, signal);
  });
}

// An admin sees whose they are; only one's own can be cancelled.
const openColumns = () => ['job', ...(session.me.admin ? ['member'] : []), 'state', 'class', 'request', 'since', ''];

const table = (heads, caption, body) => h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': caption },
  h('table.stack', {}, h('caption.hidden', {}, caption), h('thead', {}, h('tr', {}, ...heads.map((t) =>
    h('th', { scope: 'col', class: ['tokens', 'device', 'waited', 'whole'].includes(t) ? 'num' : '' }, t || h('span.hidden', {}, 'Cancel'))))), body));

function line(r, toggle) {
  const name = h('button.link', { type: 'button', 'aria-expanded': 'false', onclick: () => toggle(r) },
    moment(r.accepted + Math.max(0, r.clocks.total_s ?? 0)));
  const cells = [name, r.class, r.model || '–', `${count(r.prompt_tokens)} + ${count(r.output_tokens)}`,
    duration(r.device_s), duration(r.clocks.queue_wait_s), duration(r.clocks.total_s),
    h('span.pill', { 'data-state': r.outcome }, r.reason && r.outcome !== 'done' ? r.reason.replaceAll('_', ' ') : r.outcome)];
  const labels = ['ended', 'class', 'model', 'tokens', 'device', 'waited', 'whole', 'outcome'];
  if (session.me.admin) {
    cells.unshift(h('span', {}, swatch(r.member), r.member));
    labels.unshift('member');
  }
  return h('tr.rows', {}, ...cells.map((cell, i) => h('td', { 'data-label': labels[i], class: ['tokens', 'device', 'waited', 'whole'].includes(labels[i]) ? 'num' : '' }, cell)));
}

// The clocks of one request, one below the other, each from where it began.
export function waterfall(r) {
  const c = r.clocks, bars = [];
  const first = c.first_token_s, total = c.total_s || 1e-9;
  const queue = c.queue_wait_s ?? 0;
  const at = first !== null && c.prefill_s !== null ? Math.max(0, first - c.prefill_s - queue) : Math.min(c.text_work_s ?? 0, total);
  if (c.text_work_s !== null) bars.push(['text work', Math.max(0, at - c.text_work_s), c.text_work_s, '']);
  if (c.queue_wait_s !== null) bars.push(['waits its turn', at, queue, 'waits']);
  if (c.model_load_s > 0) bars.push(['model loads', at, c.model_load_s, 'loads']);
  if (c.prefill_s !== null && first !== null) bars.push(['reads', first - c.prefill_s, c.prefill_s, '']);
  if (c.inference_s !== null && first !== null) bars.push(['writes', first, c.inference_s, '']);
  if (c.prefill_s === null && c.queue_wait_s !== null) bars.push(['works', at + queue, Math.max(0, total - at - queue), '']);
  bars.push(['whole', 0, total, 'waits']);
  return h('div.fall', { role: 'group', 'aria-label': 'Clocks' }, ...bars.flatMap(([name, from, long, kind]) => {
    const bar = h('i', { class: kind });
    bar.style.left = `${Math.min(99.5, (from / total) * 100)}%`;
    bar.style.width = `${Math.min(100, (long / total) * 100)}%`;
    return [h('span', {}, name), h('div', {}, bar), h('span.num', {}, duration(long))];
  }));
}

function detail(r, columns, signal) {
  const result = h('div', {}, h('p.muted', {}, 'Looking for its result…'));
  const id = r.job ?? r.request;
  const el = h('tr', {}, h('td', { colSpan: columns }, h('div.detail', {},
    h('p.muted', {}, `${id} · accepted ${moment(r.accepted)} · ${r.prompt_tokens} tokens read, ${r.cached_tokens} of them from the cache, ${r.output_tokens} written · ${duration(r.device_s)} of the device`),
    waterfall(r), result)));
  results(r, signal).then((found) => result.replaceChildren(...found)).catch(() => {
    if (!signal.aborted) result.replaceChildren(h('p.muted', {}, 'Its result is not kept.'));
  });
  return el;
}

async function results(r, signal) {
  if (r.job) return showAnswer(await ask(`/v1/jobs/${r.job}/result`, { signal }), signal);
  if (r.class !== 'image') return [h('p.muted', {}, 'Answers of requests that are no jobs are not kept. See ', h('code', {}, 'docs/jobs.md'), '.')];
  const sketch = await json(`/v1/sketches/sketch-${r.request}`, { signal });
  return [await pictures(sketch, signal)];
}

async function showAnswer(response, signal) {
  const type = response.headers.get('Content-Type') ?? '';
  if (type.startsWith('image/')) return [await picture(URL.createObjectURL(await response.blob()), 'The result')];
  const text = await response.text();
  if (!type.includes('json')) return [h('pre.result', { tabindex: '0' }, text)];
  const body = JSON.parse(text);
  if (body.outputs?.length) return [await pictures(body, signal)];
  if (body.data?.[0]?.b64_json) {
    return [h('div.pictures', {}, ...body.data.map((d, i) => figure(`data:image/png;base64,${d.b64_json}`, `Picture ${i + 1}`)))];
  }
  const words = body.choices?.map((c) => c.message?.content ?? c.text).filter(Boolean).join('\n\n') ?? body.message?.content ?? body.error?.message;
  return [h('pre.result', { tabindex: '0' }, words || JSON.stringify(body, null, 2).slice(0, 20000))];
}

const figure = (src, alt, caption = '') => h('figure', {}, h('img', { src, alt }), caption && h('figcaption', {}, caption));
const picture = async (src, alt) => h('div.pictures', {}, figure(src, alt));

// What a sketch has put out, in their order.
export async function pictures(sketch, signal) {
  const made = await Promise.all(sketch.outputs.map(async (file) => {
    const response = await ask(file.url, { signal });
    if (!response.ok) return h('p.muted', {}, 'not kept any more');
    if (!(response.headers.get('Content-Type') ?? '').startsWith('image/')) return h('pre.result', { tabindex: '0' }, await response.text());
    return figure(URL.createObjectURL(await response.blob()), `Result ${file.index + 1}, ${file.width} by ${file.height}`, `${file.width} × ${file.height}`);
  }));
  return h('div.pictures', {}, ...(made.length ? made : [h('p.muted', {}, 'It put out nothing.')]));
}

async function underWay(body, box, signal) {
  const all = session.me.admin ? '&all=true' : '';
  const lists = await Promise.all(['running', 'queued'].map((state) => json(`/v1/jobs?state=${state}&limit=20${all}`, { signal }).catch(() => ({ data: [] }))));
  const jobs = lists.flatMap((l) => l.data), columns = openColumns();
  box.hidden = jobs.length === 0;
  keyed(body, jobs, (j) => j.id, (j) => {
    const stop = h('button.small', { type: 'button', 'aria-label': `Cancel ${j.id}`, hidden: j.member !== session.me.name }, 'Cancel');
    stop.addEventListener('click', () => {
      stop.disabled = true;
      json(`/v1/jobs/${j.id}`, { method: 'DELETE' }).catch(() => {});
    });
    const whose = session.me.admin ? [h('span', {}, swatch(j.member), j.member)] : [];
    return h('tr', {}, ...[h('code', {}, j.id), ...whose, h('span.pill', {}), j.class, j.path, moment(j.created), stop]
      .map((cell, i) => h('td', { 'data-label': columns[i] }, cell)));
  }, (el, j) => {
    const state = el.querySelector('.pill');
    setText(state, j.state);
    state.dataset.state = j.state;
  });
}
