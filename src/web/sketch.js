// Sketch: a few lines on the left, what the planner makes of them on the right, as one types. Run it,
// watch it become a picture, keep the picture.
import { h, json, ask, events, keyed, setText, panel, duration, bytes, ready } from './lib.js';
import { pictures } from './jobs.js';

const EXAMPLES = [
  ['An apple', '"a red apple" | encode | sample 20 seed 7 | out png\n'],
  ['Four seeds, one batch', '# four seeds, one batch\nc = "a green tree" | encode\nout (sample c 20 seed [1 2 3 4]) png\n'],
  ['Small, then larger', '# a small draft, then a larger one, never leaving latent space\nc     = "a red house" | encode\nsmall = sample c 20 seed 3\nout (small | resize 2x | sample c 12 from 0.55 seed 4) png\nout small png\n'],
  ['Two endings', '# two endings from one beginning\nc   = "a house" | encode\nmid = sample c 20 seed 5 until 8\nout (mid | sample c) png\nout (mid | sample ("a ship" | encode)) png\n'],
  ['With an input', 'in what : Text = "a fish"\n"a blue {what}" | encode | sample 20 seed 1 | out png\n'],
];
const DELAY = 250;  // Since the last key, until the planner is asked.

export function show(root, signal) {
  const text = h('textarea', { id: 'source', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', 'aria-describedby': 'verdict' });
  text.value = sessionStorage.getItem('lares.sketch') ?? EXAMPLES[0][1];
  const examples = h('select', { 'aria-label': 'Examples' }, h('option', { value: '' }, 'Examples'),
    ...EXAMPLES.map(([name], i) => h('option', { value: String(i) }, name)));
  const inputs = h('div.inputs', {});
  const run = h('button.primary', { type: 'button', disabled: true, title: 'Ctrl+Enter' }, 'Run');
  const stop = h('button', { type: 'button', hidden: true }, 'Cancel');
  const faults = h('ul.faults', { 'aria-label': 'Faults' });
  const verdict = h('p.verdict', { id: 'verdict', role: 'status' });
  const nodes = h('tbody', {});
  const plan = h('div.scroll', { hidden: true, tabindex: '0', role: 'region', 'aria-label': 'The plan' },
    h('table', {}, h('caption.hidden', {}, 'The plan, node by node'), h('thead', {}, h('tr', {},
      ...['does', 'gives', 'by', 'takes'].map((t) => h('th', { scope: 'col', class: t === 'takes' ? 'num' : '' }, t)))), nodes));
  const stage = h('div.stage', {});
  root.append(h('h1.hidden', {}, 'Sketch'), h('div.work', {},
    h('section.panel.editor', {}, h('div.row', {}, h('h2', {}, h('label', { for: 'source' }, 'Sketch')), examples), text, inputs,
      h('div.row', {}, h('span', {}, run, ' ', stop), h('span.hint', {}, 'Ctrl + Enter runs it')), faults),
    h('div', {}, panel('What the planner says', verdict, plan), panel('What becomes of it', stage))));
  stage.append(h('p.empty', {}, 'Run it, and watch.'));

  const files = new Map();
  const values = () => {
    const given = {};
    for (const input of inputs.querySelectorAll('input')) {
      if (input.type === 'file') {
        if (files.has(input.name)) given[input.name] = { png: files.get(input.name) };
      } else if (input.value !== '') given[input.name] = input.value;
    }
    return given;
  };

  let timer = 0, asked = 0;
  const check = async () => {
    sessionStorage.setItem('lares.sketch', text.value);
    drawInputs(inputs, text.value, files, () => later());
    const mine = ++asked;
    const response = await ask('/v1/sketches/check', { method: 'POST', body: { sketch: text.value, inputs: values() }, signal,
      headers: { 'X-Lares-Faults': 'ok' } }).catch(() => null);
    const body = await response?.json().catch(() => null);
    if (signal.aborted || mine !== asked || !body) return;
    const wrong = body.errors ?? (body.error ? [{ message: body.error.message, line: 0 }] : []);
    run.disabled = wrong.length > 0;
    faults.replaceChildren(...wrong.map((fault) => h('li', {}, h('button', { type: 'button', onclick: () => goTo(text, fault) },
      `${fault.line ? `${fault.code}, line ${fault.line}, column ${fault.column}\n` : ''}${fault.message}`))));
    plan.classList.toggle('gone', wrong.length > 0);
    if (wrong.length) setText(verdict, `${wrong.length === 1 ? 'A fault' : `${wrong.length} faults`}: it cannot run yet.`);
    else showPlan(body, verdict, plan, nodes);
    ready();
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(check, DELAY);
  };
  text.addEventListener('input', later);
  examples.addEventListener('change', () => {
    if (examples.value === '') return;
    text.value = EXAMPLES[Number(examples.value)][1];
    examples.value = '';
    check();
  });
  text.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !run.disabled && !run.hidden) start();
  });
  signal.addEventListener('abort', () => clearTimeout(timer));

  let current = null;
  const start = async () => {
    run.hidden = true;
    stop.hidden = false;
    stop.disabled = false;
    try {
      const made = await json('/v1/sketches', { method: 'POST', body: { sketch: text.value, inputs: values(), previews: true }, signal });
      current = made.id;
      await watch(made.id, stage, signal);
    } catch (error) {
      if (!signal.aborted) stage.replaceChildren(h('p.wrong', { role: 'alert' }, error.message));
    }
    current = null;
    run.hidden = false;
    stop.hidden = true;
    if (document.activeElement === document.body) run.focus();
    check();  // What it made is in the cache now: another price.
  };
  run.addEventListener('click', start);
  stop.addEventListener('click', () => {
    stop.disabled = true;
    if (current) json(`/v1/sketches/${current}`, { method: 'DELETE' }).catch(() => {});
  });
  check();
}

async function watch(id, stage, signal) {
  const bar = h('progress', { 'aria-label': 'Progress', max: 1, value: 0 });
  const words = h('p.muted', { role: 'status' }, 'It waits for its turn.');
  const preview = h('img', { alt: 'Preview', hidden: true, width: 256, height: 256 });
  const place = h('div.pictures', {}, h('figure', {}, preview));
  stage.replaceChildren(bar, words, place);
  for await (const { event, data } of events(`/v1/sketches/${id}/events`, { signal })) {
    const told = JSON.parse(data);
    if (event === 'progress') {
      bar.max = Math.max(1, told.total);
      bar.value = told.step;
      setText(words, `Step ${told.step} of ${told.total}`);
    } else if (event === 'preview') {
      preview.hidden = false;
      preview.src = `data:image/png;base64,${told.png}`;
      preview.dataset.count = Number(preview.dataset.count ?? 0) + 1;
    } else if (event === 'end') {
      stage.dataset.previews = preview.dataset.count ?? 0;
      await ended(told, stage, signal);
      return;
    }
  }
  throw new Error('The server closed the stream; the sketch may still be going on.');
}

async function ended(sketch, stage, signal) {
  const record = sketch.record;
  const words = { done: 'Done', failed: 'It failed', cancelled: 'Cancelled' }[sketch.status] ?? sketch.status;
  const facts = record ? `: ${record.unet_steps} steps, ${record.decodes} decoded, ${record.cache_hits} from the cache, ${duration(record.clocks.device_s)} of the device, ${duration(record.clocks.total_s)} in all` : '';
  const line = h('p', { role: 'status', 'data-status': sketch.status }, h('b', {}, words), h('span.muted', {}, facts));
  const wrong = sketch.status === 'failed' && sketch.error ? [h('p.wrong', { role: 'alert' }, sketch.error.message)] : [];
  stage.replaceChildren(line, ...wrong, ...(sketch.outputs.length ? [await pictures(sketch, signal)] : []));
}

// A field for each `in NAME : TYPE` of the text.
function drawInputs(box, source, files, changed) {
  const found = [...source.matchAll(/^\s*in\s+([\p{L}_][\p{L}\p{N}_]*)\s*:\s*(Text|Pixels)\b(?:\s*=\s*"((?:[^"\\]|\\.)*)")?/gmu)];
  keyed(box, found.map(([, name, type, initial]) => ({ name, type, initial })), (x) => `${x.name}:${x.type}`, ({ name, type }) => {
    const input = type === 'Pixels' ? h('input', { type: 'file', accept: 'image/png', name }) : h('input', { type: 'text', name, autocomplete: 'off' });
    input.addEventListener('input', async () => {
      const file = input.files?.[0];
      if (file) {
        const data = new Uint8Array(await file.arrayBuffer());
        let binary = '';
        for (let i = 0; i < data.length; i += 8192) binary += String.fromCharCode(...data.subarray(i, i + 8192));
        files.set(name, btoa(binary));
      }
      changed();
    });
    return h('label', {}, name, input);
  }, (el, { initial }) => {
    const input = el.querySelector('input');
    if (input.type === 'text') input.placeholder = initial ?? '';
  });
}

function showPlan(body, verdict, plan, nodes) {
  const { seconds, unmeasured, memory_bytes: memory } = body.price;
  const work = body.nodes.filter((n) => n.needed && n.price_s !== null && n.price_s > 0);
  const price = seconds > 0 ? `About ${duration(seconds)}` : work.length ? 'A moment' : unmeasured.length ? 'No price yet' : 'Next to nothing: it is in the cache';
  verdict.replaceChildren(h('b', {}, price), h('span.muted', {},
    `${memory ? ` · ${bytes(memory)} of memory` : ''}${unmeasured.length ? ` · not measured yet: ${unmeasured.join(', ')}` : ''}`));
  plan.hidden = false;
  const shown = body.nodes.filter((n) => n.op !== 'text' && n.op !== 'list');
  keyed(nodes, shown.map((n, i) => ({ ...n, i })), (n) => n.i, () => h('tr', {}, h('td', {}), h('td', {}), h('td', {}), h('td.num', {})), (el, n) => {
    const args = Object.entries(n.fixed).concat(Object.entries(n.at_run)).filter(([k]) => ['steps', 'seed', 'size', 'factor', 'from', 'until', 'medium'].includes(k)).map(([k, v]) => `${k} ${v}`);
    setText(el.children[0], `${n.name ? `${n.name} = ` : ''}${n.op}`);
    el.children[0].title = args.join(', ');
    setText(el.children[1], n.type);
    setText(el.children[2], n.model ?? '');
    setText(el.children[3], n.cached ? 'cached' : !n.needed ? 'not needed' : n.price_s === null ? '–' : n.price_s > 0 ? duration(n.price_s) : '');
    el.classList.toggle('gone', n.cached || !n.needed);
  });
}

function goTo(text, fault) {
  text.focus();
  if (!fault.line) return;
  const lines = text.value.split('\n');
  let at = lines.slice(0, fault.line - 1).reduce((sum, l) => sum + l.length + 1, 0);
  at += [...(lines[fault.line - 1] ?? '')].slice(0, fault.column - 1).join('').length;
  const word = /^[\p{L}\p{N}_:-]*/u.exec(text.value.slice(at))[0].length || 1;
  text.setSelectionRange(at, Math.min(text.value.length, at + word));
}
