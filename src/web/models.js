// Models: which are held, why, and what it costs to load them.
import { h, json, every, keyed, setText, duration, bytes, count } from './lib.js';

const STATES = { ready: 'loaded', available: 'not loaded', loading: 'loading', probing: 'being looked at', failed: 'cannot be used' };

export function show(root, signal) {
  const cards = h('div.cards', {});
  root.append(h('h1', {}, 'Models'), h('p.muted', {}, 'Files in the models folder are found by themselves. A model is loaded when somebody asks for it.'), cards);
  const create = () => h('section.panel', {}, h('div.row', {}, h('h2', {}), h('span.pill', {})), h('p.why', {}), h('dl', {}));
  const update = (el, model) => {
    const [head, why, facts] = el.children;
    setText(head.children[0], model.id);
    setText(head.children[1], STATES[model.state] ?? model.state);
    head.children[1].dataset.state = model.state;
    setText(why, model.error ?? `${model.why.charAt(0).toUpperCase()}${model.why.slice(1)}.`);
    why.classList.toggle('wrong', Boolean(model.error));
    const does = [model.generates && 'text', model.embeds && 'embeddings', !model.generates && !model.embeds && model.state !== 'failed' && model.state !== 'probing' && 'pictures'].filter(Boolean);
    const lines = [['Makes', does.join(', ') || '–'], ['Kind', model.architecture || '–'],
      ['Parameters', model.parameters ? count(model.parameters) : '–'], ['Weights', bytes(model.size_bytes)],
      ['Memory', model.memory_bytes ? bytes(model.memory_bytes) : '–'],
      ['Context', model.context_length ? `${count(model.context_length)} tokens` : '–'],
      ['Loading took', model.load_s === null ? 'not loaded yet' : duration(model.load_s)],
      ['Loaded, taken off', `${model.loads} ×, ${model.unloads} ×`]];
    keyed(facts, lines.flatMap(([name, value]) => [{ key: `t${name}`, tag: 'dt', text: name }, { key: `d${name}`, tag: 'dd', text: value }]),
      (x) => x.key, (x) => h(x.tag, {}), (x, { text }) => setText(x, text));
  };
  every(2000, signal, async () => {
    const { data } = await json('/v1/models', { signal });
    const order = Object.keys(STATES);
    data.sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state) || a.id.localeCompare(b.id));
    keyed(cards, data, (m) => m.id, create, update);
  });
}
