// People: who had how much of the device, hour by hour, how even that was, and how long they waited.
import { h, json, every, keyed, setText, panel, duration, count, percent, swatch, colour, css, session } from './lib.js';

// uPlot is fetched when it is first wanted, and not before.
let plotter = null;
function uplot() {
  plotter ??= new Promise((resolve, reject) => {
    document.head.append(h('link', { rel: 'stylesheet', href: '/web/vendor/uPlot.min.css' }),
      h('script', { src: '/web/vendor/uPlot.iife.min.js', onload: () => resolve(window.uPlot), onerror: reject }));
  });
  return plotter;
}

const tile = (label, note) => {
  const value = h('b', {}, '–');
  return { el: h('div.tile', {}, h('span', {}, label), value, h('small', {}, note)), value };
};

export function show(root, signal) {
  const range = h('select', { 'aria-label': 'How far back' }, ...[[24, '24 hours'], [72, '3 days'], [168, '7 days']]
    .map(([n, text]) => h('option', { value: String(n) }, text)));
  const by = h('select', { 'aria-label': 'Cut up by' }, h('option', { value: 'member' }, 'by member'), h('option', { value: 'class' }, 'by class'));
  const used = tile('Device time', 'of everybody in that time'), even = tile('Evenness', 'Jain’s index: 1 is equal, by weight'), wait = tile('Longest wait', session.me.admin ? 'of anybody, for a first step' : 'of yours, for a first step');
  const plot = h('div.plot', { role: 'img' });
  const legend = h('ul.legend', {});
  const body = h('tbody', {});
  const heads = ['', 'device', 'share', 'requests', 'tokens', 'mean wait', 'longest', 'first token'];
  root.append(h('div.row', {}, h('h1', {}, 'People'), h('span', {}, range, ' ', by)),
    h('div.facts3', {}, used.el, even.el, wait.el), panel('Device time, hour by hour', plot, legend),
    panel('Who used what', h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Who used what' }, h('table', {},
      h('caption.hidden', {}, 'Device time, requests and waits'), h('thead', {}, h('tr', {}, ...heads.map((t, i) =>
        h('th', { scope: 'col', class: i ? 'num' : '' }, t || h('span.hidden', {}, 'Who'))))), body))));

  let answer = null, drawn = null;
  const draw = () => answer && drawAll(answer, by.value, { plot, legend, body, used, even, wait }, (p) => {
    drawn?.destroy();
    drawn = p;
  });
  const load = async () => {
    answer = await json(`/v1/usage/hours?hours=${range.value}`, { signal });
    draw();
  };
  range.addEventListener('change', () => load().catch(() => {}), { signal });
  by.addEventListener('change', draw, { signal });
  document.addEventListener('lares:theme', draw, { signal });
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 2) return;
    width = entry.contentRect.width;
    draw();
  }).observe(plot);
  every(10000, signal, load);
}

async function drawAll(answer, key, to, keep) {
  const rows = new Map();
  const row = (name) => {
    if (!rows.has(name)) rows.set(name, { name, device: 0, requests: 0, tokens: 0, waits: 0, worst: 0, first: 0, hours: new Map() });
    return rows.get(name);
  };
  for (const use of answer.data) {
    const r = row(use[key]);
    r.device += use.device_s;
    r.requests += use.requests;
    r.tokens += use.prompt_tokens + use.output_tokens;
    r.waits += use.wait_mean_s * use.requests;
    r.first += use.first_token_mean_s * use.requests;
    r.worst = Math.max(r.worst, use.wait_max_s);
    r.hours.set(use.hour, (r.hours.get(use.hour) ?? 0) + use.device_s);
  }
  for (const use of answer.others) {
    const r = row(null);
    r.device += use.device_s;
    r.hours.set(use.hour, (r.hours.get(use.hour) ?? 0) + use.device_s);
  }
  const list = [...rows.values()].sort((a, b) => (a.name === null) - (b.name === null) || b.device - a.device);
  const whole = list.reduce((sum, r) => sum + r.device, 0);
  setText(to.used.value, duration(whole));
  setText(to.even.value, answer.members ? answer.jain.toFixed(2) : '–');
  setText(to.wait.value, duration(Math.max(0, ...list.map((r) => r.worst))));
  keyed(to.body, list, (r) => r.name ?? '', (r) => h('tr', {}, h('td', {}, swatch(r.name), r.name ?? 'others'), ...Array.from({ length: 7 }, () => h('td.num', {}))), (el, r) => {
    const cells = r.name === null ? [duration(r.device), percent(r.device / (whole || 1)), '', '', '', '', '']
      : [duration(r.device), percent(r.device / (whole || 1)), count(r.requests), count(r.tokens), duration(r.waits / r.requests), duration(r.worst), r.first > 0 ? duration(r.first / r.requests) : '–'];
    cells.forEach((text, i) => setText(el.children[i + 1], text));
  });
  keyed(to.legend, list, (r) => r.name ?? '', (r) => h('li', {}, swatch(r.name), r.name ?? 'others'), () => {});
  to.plot.setAttribute('aria-label', `Device time by hour. ${list.map((r) => `${r.name ?? 'others'} ${duration(r.device)}`).join(', ')}. The table below has the numbers.`);
  keep(await plotted(to.plot, list, answer.since));
}

async function plotted(box, list, since) {
  const uPlot = await uplot();
  const hours = [];
  for (let t = since; t <= Date.now() / 1000; t += 3600) hours.push(t);
  // Stacked: the last series is drawn first, and is the sum of all.
  const sums = hours.map(() => 0);
  const stacked = list.map((r) => hours.map((t, i) => (sums[i] += (r.hours.get(t) ?? 0) / 60)));
  const bars = uPlot.paths.bars({ size: [0.8, 46], align: 1 });
  const axis = { stroke: css('--muted'), grid: { stroke: css('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui, sans-serif' };
  const series = list.map((r, i) => ({ label: r.name ?? 'others', fill: colour(r.name), width: 0, paths: bars, points: { show: false }, i })).reverse();
  box.replaceChildren();
  return new uPlot({
    width: Math.max(200, box.clientWidth), height: 260, legend: { show: false }, cursor: { show: false },
    scales: { x: { time: true, range: () => [since, Math.max(since + 6 * 3600, hours.at(-1) + 3600)] }, y: { range: (u, low, high) => [0, Math.max(high ?? 0, 1 / 60)] } },
    axes: [{ ...axis, grid: { show: false } }, { ...axis, size: 72, values: (u, ticks) => ticks.map((m) => (m < 1 ? `${Math.round(m * 60)} s` : `${Number(m.toFixed(1))} min`)) }],
    series: [{}, ...series],
  }, [hours, ...stacked.reverse()], box);
}
