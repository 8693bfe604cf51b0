// uPlot with the page's colours and size; fetched when the first plot is wanted. A plot is a picture: its label says what it shows in
// words, and a table beside it has the figures.
import { el } from './dom.js';

let library = null;
function load() {
  if (!library) {
    if (!document.querySelector('link[data-uplot]'))
      document.head.append(el('link', { rel: 'stylesheet', href: 'vendor/uPlot.css', dataset: { uplot: '' } }));
    library = import('../vendor/uPlot.esm.js').then((m) => m.default);
  }
  return library;
}

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || '#888';

/** Pixels of letters that are 11 where the page's letters are of the usual size. */
export const letters = (px) => Math.round((px * (Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16)) / 16);

/** A mark at x, y of size r (canvas pixels) on a path, by kind; colour is never the only difference. */
export const marks = {
  good: (p, x, y, r) => {
    p.moveTo(x + r, y);
    p.arc(x, y, r, 0, 6.3);
  },
  none: (p, x, y, r) => {
    p.moveTo(x + r, y);
    p.arc(x, y, r, 0, 6.3);
  },
  correct: (p, x, y, r) => {
    p.moveTo(x, y - r * 1.3);
    p.lineTo(x + r * 1.3, y);
    p.lineTo(x, y + r * 1.3);
    p.lineTo(x - r * 1.3, y);
    p.closePath();
  },
  doubt: (p, x, y, r) => {
    marks.correct(p, x, y, r);
  },
  wrong: (p, x, y, r) => {
    p.moveTo(x - r, y - r);
    p.lineTo(x + r, y + r);
    p.moveTo(x + r, y - r);
    p.lineTo(x - r, y + r);
  },
  unsafe: (p, x, y, r) => {
    p.moveTo(x, y - r * 1.2);
    p.lineTo(x + r * 1.2, y + r);
    p.lineTo(x - r * 1.2, y + r);
    p.closePath();
  },
  build: (p, x, y, r) => {
    p.rect(x - r, y - r, 2 * r, 2 * r);
  },
};

/**
 * A plot that draws itself anew when its box or the theme changes. `options()` gives uPlot's options (without size); `data` may be
 * changed by set(data); `label` says in words what it shows.
 */
export class Plot {
  constructor({ height = 240, label, options, data }) {
    Object.assign(this, { height, options, data, plot: null, closed: false });
    this.node = el('div', { class: 'plot', role: 'img', 'aria-label': label, size: { height: `${height}px` } });
    this.onTheme = () => this.make();
    window.addEventListener('proteus-theme', this.onTheme);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.node);
    load().then((uPlot) => {
      this.uPlot = uPlot;
      this.make();
    });
  }

  label(text) {
    if (this.node.getAttribute('aria-label') !== text) this.node.setAttribute('aria-label', text);
  }

  make() {
    if (this.closed || !this.uPlot || !this.data || !this.node.clientWidth) return;
    this.plot?.destroy();
    const axis = {
      stroke: color('muted'),
      grid: { stroke: color('line'), width: 1 },
      ticks: { stroke: color('line'), width: 1 },
      font: `${letters(11)}px ui-monospace, monospace`,
    };
    const given = this.options();
    this.plot = new this.uPlot(
      {
        width: this.node.clientWidth,
        height: this.height,
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        ...given,
        axes: (given.axes ?? [{}, {}]).map((a) => ({ ...axis, ...a })),
      },
      this.data,
      this.node,
    );
  }

  fit() {
    if (!this.plot) this.make();
    else if (this.plot.width !== this.node.clientWidth && this.node.clientWidth)
      this.plot.setSize({ width: this.node.clientWidth, height: this.height });
  }

  set(data) {
    this.data = data;
    if (this.plot) this.plot.setData(data);
    else this.make();
  }

  close() {
    this.closed = true;
    this.observer.disconnect();
    window.removeEventListener('proteus-theme', this.onTheme);
    this.plot?.destroy();
  }
}
