// Now: what the device does, who waits and why, what runs, what memory holds.
import { h, json, every, keyed, setText, panel, duration, bytes, count, percent, swatch, session } from './lib.js';
import { Strip } from './strip.js';

const tile = (label) => {
  const value = h('b', {}, '–');
  const note = h('small', {}, '');
  return { el: h('div.tile', {}, h('span', {}, label), value, note), value, note };
};

export function show(root, signal) {
  const busy = tile('Device'), running = tile('Running'), waiting = tile('Waiting'), speed = tile('Speed');
  const strip = new Strip();
  const zoom = h('select', { 'aria-label': 'How far back', onchange: () => { strip.window = Number(zoom.value); strip.draw(); strip.tell(); } },
    ...[[15, '15 seconds'], [60, '1 minute'], [300, '5 minutes']].map(([s, text]) => h('option', { value: String(s), selected: s === 60 }, text)));
  const device = h('section.panel', {}, h('div.row', {}, h('h2', {}, 'The device'), zoom), strip.el);
  const live = liveStreams(signal), queue = queueTable(signal), memory = memoryBar();
  root.append(h('h1.hidden', {}, 'Now'),
    h('div.tiles', {}, busy.el, running.el, waiting.el, speed.el), device,
    h('div.pair', {}, live.el, queue.el), memory.el);
  document.addEventListener('lares:theme', () => strip.draw(), { signal });

  every(1000, signal, async () => {
    const [timeline, jobs] = await Promise.all([
      json(`/v1/timeline?since=${strip.next}`, { signal }), json('/v1/queue', { signal })]);
    strip.add(timeline);
    const sums = strip.sums(10);
    setText(busy.value, percent(sums.busy));
    setText(busy.note, 'busy, last 10 s');
    setText(speed.value, count(sums.tokens));
    setText(speed.note, 'tokens a second, read and written');
    const own = (state) => jobs.jobs.filter((j) => j.state === state);
    setText(running.value, own('running').length + jobs.others.running);
    setText(running.note, jobs.others.running ? `${own('running').length} of them yours` : session.me.admin ? 'of everybody' : 'yours');
    setText(waiting.value, own('queued').length + jobs.others.queued);
    setText(waiting.note, own('queued').length + jobs.others.queued === 0 ? 'nobody waits' : session.me.admin ? 'of everybody' : `${own('queued').length} of them yours`);
    live.update(own('running'));
    queue.update(own('queued').sort((a, b) => a.position - b.position), jobs.others);
  });
  every(4000, signal, async () => memory.update(await json('/v1/memory', { signal })));
}

const who = (job) => (session.me.admin ? [swatch(job.member), `${job.member} · `] : []);

async function cancel(job, button) {
  button.disabled = true;
  button.textContent = 'cancelling';
  await json(`/v1/jobs/${job.id}`, { method: 'DELETE' }).catch((e) => { button.textContent = e.status === 404 ? 'over' : 'failed'; });
}

function liveStreams(signal) {
  const list = h('ul.streams', { 'aria-label': 'What runs' });
  const empty = h('p.empty', {}, 'Nothing runs.');
  const speeds = new Map();  // By job: tokens as they came.
  const speedOf = (job) => {
    const seen = speeds.get(job.id) ?? [];
    seen.push([job.waited_s, job.output_tokens]);
    if (seen.length > 6) seen.shift();
    speeds.set(job.id, seen);
    const [t, n] = seen[0];
    return job.waited_s > t ? (job.output_tokens - n) / (job.waited_s - t) : 0;
  };
  const create = (job) => {
    const stop = h('button.small', { type: 'button', 'aria-label': `Cancel ${job.model}` }, 'Cancel');
    stop.addEventListener('click', () => cancel(job, stop), { signal });
    return h('li', {}, h('div', {}, h('strong', {}, ...who(job), job.class), h('span.muted', {}, ` ${job.model}`)),
      h('div.facts', {}), stop);
  };
  const update = (el, job) => {
    const speed = speedOf(job);
    const words = [`${duration(job.waited_s)}`];
    if (job.prompt_tokens) words.push(`${count(job.prompt_tokens)} read`);
    if (job.output_tokens) words.push(`${count(job.output_tokens)} written`);
    if (speed > 0) words.push(`${speed < 10 ? speed.toFixed(1) : Math.round(speed)} a second`);
    setText(el.children[1], words.join(' · '));
    el.children[1].dataset.tokens = job.output_tokens;
  };
  const el = panel('Live', empty, list);
  return {
    el,
    update(jobs) {
      keyed(list, jobs, (j) => j.id, create, update);
      for (const id of speeds.keys()) if (!jobs.some((j) => j.id === id)) speeds.delete(id);
      empty.hidden = jobs.length > 0;
    },
  };
}

function queueTable(signal) {
  const body = h('tbody', {});
  const empty = h('p.empty', {}, 'Nobody waits.');
  const others = h('p.muted', {});
  const table = h('table', {}, h('caption.hidden', {}, 'What waits'),
    h('thead', {}, h('tr', {}, ...['', 'what', 'why', 'begins in', ''].map((t, i) =>
      h('th', { scope: 'col', class: i === 3 ? 'num' : '' }, t || h('span.hidden', {}, i ? 'Cancel' : 'Place'))))), body);
  const create = (job) => {
    const stop = h('button.small', { type: 'button', 'aria-label': `Cancel ${job.class}` }, 'Cancel');
    stop.addEventListener('click', () => cancel(job, stop), { signal });
    return h('tr', {}, h('td.num', {}), h('td', {}, ...who(job), job.class, h('span.muted', {}, ` ${job.model}`)), h('td', {}), h('td.num', {}), h('td', {}, stop));
  };
  const update = (el, job) => {
    setText(el.children[0], job.reason.startsWith('its prompt') ? '–' : job.position + 1);
    setText(el.children[2], job.reason);
    setText(el.children[3], job.estimate_s > 0 ? `~${duration(job.estimate_s)}` : 'a moment');
  };
  const box = h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Queue' }, table);
  return {
    el: panel('Queue', empty, box, others),
    update(jobs, rest) {
      keyed(body, jobs.slice(0, 50), (j) => j.id, create, update);
      box.hidden = jobs.length === 0;
      empty.hidden = jobs.length + rest.queued > 0;
      const more = jobs.length > 50 ? `${jobs.length - 50} more of yours. ` : '';
      setText(others, more + (rest.queued ? `${rest.queued} of other members wait too.` : ''));
      others.hidden = !others.textContent;
    },
  };
}

const PARTS = [['weights', 'weights'], ['kv', 'words in work'], ['cache', 'words kept'], ['compute', 'buffers']];

function memoryBar() {
  const bar = h('div.bar', { role: 'img' });
  const legend = h('ul.legend', {});
  const models = h('p.muted', {});
  return {
    el: panel('Memory', bar, legend, models),
    update(answer) {
      const device = answer.devices[0];
      const used = PARTS.reduce((sum, [key]) => sum + device[key], 0);
      const total = Math.max(device.total, used + device.free, 1);
      const parts = PARTS.map(([key, name]) => ({ key, name, n: device[key] }));
      parts.push({ key: 'other', name: 'other programs', n: Math.max(0, total - used - device.free) }, { key: 'free', name: 'free', n: device.free });
      keyed(bar, parts, (p) => p.key, (p) => h(`i.${p.key}`, {}), (el, p) => { el.style.width = `${(p.n / total) * 100}%`; });
      keyed(legend, parts, (p) => p.key, (p) => h('li', {}, h(`i.swatch.${p.key}`, { 'aria-hidden': 'true' }), h('span', {})),
        (el, p) => setText(el.lastChild, `${p.name} ${bytes(p.n)}`));
      bar.setAttribute('aria-label', `Memory of ${device.name}: ${parts.map((p) => `${p.name} ${bytes(p.n)}`).join(', ')}`);
      const held = answer.models.map((m) => m.name + (m.embeddings ? ' (embeddings)' : ''));
      setText(models, `${device.name}, ${bytes(device.total)}. ${held.length ? `Held: ${held.join(', ')}.` : 'No model is held.'} ` +
        `On the host: ${bytes(answer.host.saved)} of ${bytes(answer.host.budget)}.`);
    },
  };
}
