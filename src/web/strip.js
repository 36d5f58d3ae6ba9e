// The device's timeline as a flame strip: a lane for each model, a block for each stretch of steps,
// cut up by whose they were. Drawn on a canvas; what is under the pointer, or chosen by the arrow
// keys, is told in words below.
import { h, colour, css, duration, percent, setText } from './lib.js';

const LANE = 34, GAP = 6, AXIS = 20, LABEL = 15;

export class Strip {
  constructor() {
    this.entries = [];
    this.next = 0;
    this.now = 0;
    this.window = 60;
    this.chosen = null;
    this.canvas = h('canvas', { tabindex: '0', role: 'img', 'aria-label': 'What the device did: nothing yet' });
    this.readout = h('p.readout', { 'aria-live': 'polite' });
    this.legend = h('ul.legend', {});
    this.el = h('div.strip', {}, this.canvas, this.readout, this.legend);
    this.canvas.addEventListener('pointermove', (e) => this.choose(this.at(e.offsetX, e.offsetY)));
    this.canvas.addEventListener('pointerleave', () => this.choose(null));
    this.canvas.addEventListener('keydown', (e) => this.key(e));
    new ResizeObserver(() => this.draw()).observe(this.el);
    this.tell();
  }

  // What came of GET /v1/timeline?since=; the last entry known may have grown.
  add(answer) {
    if (answer.now < this.now) this.entries = [];  // The server began anew.
    this.now = answer.now;
    for (const step of answer.steps) {
      while (this.entries.length && this.entries.at(-1).n >= step.n) this.entries.pop();
      this.entries.push(step);
    }
    this.next = answer.next;
    const oldest = this.now - 310;
    let gone = 0;
    while (gone < this.entries.length && this.entries[gone].end < oldest) ++gone;
    if (gone) this.entries.splice(0, gone);
    this.draw();
    this.tell();
  }

  shown() {
    const from = this.now - this.window;
    let i = this.entries.length;
    while (i > 0 && this.entries[i - 1].end > from) --i;
    return this.entries.slice(i);
  }

  // Of the last seconds: the part of the time that the device computed, and tokens.
  sums(seconds) {
    const from = this.now - seconds;
    let busy = 0, tokens = 0;
    for (let i = this.entries.length - 1; i >= 0 && this.entries[i].end > from; --i) {
      const e = this.entries[i];
      const part = e.end > e.start ? Math.min(1, (e.end - from) / (e.end - e.start)) : 1;
      busy += e.device_s * part;
      tokens += e.tokens * part;
    }
    return { busy: Math.min(1, busy / seconds), tokens: tokens / seconds };
  }

  lanes() {
    return [...new Set(this.shown().map((e) => e.model))].sort();
  }

  x(time, width) {
    return ((time - this.now) / this.window + 1) * width;
  }

  draw() {
    const width = this.el.clientWidth;
    if (!width) return;
    const lanes = this.lanes();
    const height = Math.max(1, lanes.length) * (LANE + LABEL + GAP) + AXIS;
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== width * scale || this.canvas.height !== height * scale) {
      this.canvas.width = width * scale;
      this.canvas.height = height * scale;
      this.canvas.style.height = `${height}px`;
    }
    const g = this.canvas.getContext('2d');
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
    this.frame(g, width, height, lanes);
    const colours = new Map();
    const of = (name) => {
      if (!colours.has(name)) colours.set(name, colour(name));
      return colours.get(name);
    };
    for (const e of this.shown()) {
      // On whole points of the screen: what follows at once has no seam.
      const left = Math.max(0, Math.floor(this.x(e.start, width) * scale) / scale);
      const wide = Math.max(1, Math.ceil(this.x(e.end, width) * scale) / scale - left);
      let y = lanes.indexOf(e.model) * (LANE + LABEL + GAP) + LABEL;
      const whole = e.shares.reduce((sum, s) => sum + s.device_s, 0) || 1;
      for (const share of e.shares) {
        const tall = (share.device_s / whole) * LANE;
        g.fillStyle = of(share.member);
        g.fillRect(left, y, wide, tall);
        y += tall;
      }
      if (this.chosen?.n === e.n) {
        g.strokeStyle = css('--ink');
        g.lineWidth = 2;
        g.strokeRect(left - 1, y - LANE - 1, wide + 2, LANE + 2);
      }
    }
  }

  frame(g, width, height, lanes) {
    const muted = css('--muted'), line = css('--line'), sunk = css('--sunk');
    g.font = '12px system-ui, sans-serif';
    g.textBaseline = 'alphabetic';
    (lanes.length ? lanes : ['']).forEach((name, i) => {
      const y = i * (LANE + LABEL + GAP);
      g.fillStyle = sunk;
      g.fillRect(0, y + LABEL, width, LANE);
      g.fillStyle = muted;
      g.textAlign = 'left';
      g.fillText(name || 'nothing ran', 0, y + 11);
    });
    const step = this.window <= 15 ? 5 : this.window <= 60 ? 15 : 60;
    for (let ago = 0; ago <= this.window; ago += step) {
      const x = Math.round(this.x(this.now - ago, width)) - 0.5;
      g.strokeStyle = line;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x, LABEL);
      g.lineTo(x, height - AXIS + 2);
      g.stroke();
      g.fillStyle = muted;
      g.textAlign = ago === 0 ? 'right' : ago >= this.window ? 'left' : 'center';
      g.fillText(ago === 0 ? 'now' : `−${step < 60 ? `${ago} s` : `${ago / 60} min`}`, ago >= this.window ? 0 : x, height - 5);
    }
  }

  at(x, y) {
    const width = this.el.clientWidth;
    const lane = this.lanes()[Math.floor(y / (LANE + LABEL + GAP))];
    let best = null, least = 6;
    for (const e of this.shown()) {
      if (e.model !== lane) continue;
      const left = this.x(e.start, width), right = this.x(e.end, width);
      const far = x < left ? left - x : x > right ? x - right : 0;
      if (far < least) [best, least] = [e, far];
      if (far === 0) break;
    }
    return best;
  }

  key(event) {
    const shown = this.shown();
    if (!shown.length) return;
    const now = shown.findIndex((e) => e.n === this.chosen?.n);
    const to = { ArrowLeft: now < 0 ? shown.length - 1 : now - 1, ArrowRight: now + 1, Home: 0, End: shown.length - 1 }[event.key];
    if (event.key === 'Escape') this.choose(null);
    if (to === undefined) return;
    event.preventDefault();
    this.choose(shown[Math.max(0, Math.min(shown.length - 1, to))]);
  }

  choose(entry) {
    if (entry?.n === this.chosen?.n) return;
    this.chosen = entry;
    this.draw();
    this.tell();
  }

  // In words, for the eye and for a screen reader.
  tell() {
    const shares = new Map();
    let all = 0;
    for (const e of this.shown()) {
      for (const s of e.shares) {
        shares.set(s.member, (shares.get(s.member) ?? 0) + s.device_s);
        all += s.device_s;
      }
    }
    const parts = [...shares].sort((a, b) => b[1] - a[1]);
    this.legend.replaceChildren(...parts.map(([name, s]) =>
      h('li', {}, h('i', { class: 'swatch', 'aria-hidden': 'true', 'data-c': name ?? '' }), `${name ?? 'others'} ${percent(s / all)}`)));
    for (const [i, [name]] of parts.entries()) this.legend.children[i].firstChild.style.background = colour(name);
    const words = parts.map(([name, s]) => `${name ?? 'others'} ${percent(s / all)}`).join(', ');
    this.canvas.setAttribute('aria-label', `The device, last ${this.window} seconds, by member: ${words || 'nothing ran'}. Arrow keys go from step to step.`);
    const e = this.chosen;
    setText(this.readout, e
      ? `${duration(this.now - e.end)} ago, ${e.model}: ${duration(e.device_s)} for ${e.steps} step${e.steps === 1 ? '' : 's'}, ${e.shares
        .map((s) => `${s.member === null ? 'others' : `${s.member} (${s.class})`} ${duration(s.device_s)}`).join(', ')}`
      : 'Each block is the device at work, in its member’s colour. Point at one, or use the arrow keys.');
  }
}
