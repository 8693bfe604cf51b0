// A table of any length: only the rows in sight are in the document. Rows have one height; the box scrolls by keyboard too, and
// aria-rowcount and aria-rowindex say what is not there.
import { el, replace } from './dom.js';

const BEYOND = 6;

export class LongTable {
  /** columns: [{title, cls?, cell(row)}]; rowHeight in px; rowClass(row)?; empty: node shown when there is no row. */
  constructor({ label, columns, rowHeight = 34, rowClass, tall }) {
    Object.assign(this, { columns, rowHeight, rowClass, rows: [], first: -1, last: -1, top: 0, height: 480 });
    this.body = el('tbody');
    this.table = el(
      'table',
      { class: 'long' },
      el(
        'thead',
        null,
        el(
          'tr',
          { 'aria-rowindex': 1 },
          columns.map((c) => el('th', { scope: 'col', class: c.cls }, c.title)),
        ),
      ),
      this.body,
    );
    this.node = el(
      'div',
      {
        class: `table-box long-box${tall ? ' tall' : ''}`,
        tabindex: 0,
        role: 'region',
        'aria-label': label,
        dataset: { key: `long-${label}` },
      },
      this.table,
    );
    this.node.addEventListener(
      'scroll',
      () => {
        if (this.queued) return;
        this.queued = true;
        requestAnimationFrame(() => {
          this.queued = false;
          this.top = this.node.scrollTop;
          this.draw(false);
        });
      },
      { passive: true },
    );
    // Sizes are told, not asked for: asking would lay the page out in the midst of drawing it.
    new ResizeObserver((all) => {
      const h = all[0].contentRect.height;
      if (h && h !== this.height) {
        this.height = h;
        this.draw(false);
      }
    }).observe(this.node);
  }

  set(rows) {
    this.rows = rows;
    this.table.setAttribute('aria-rowcount', String(rows.length + 1));
    this.node.style.setProperty('--rows', String(rows.length));
    this.draw(true);
  }

  draw(changed) {
    const seen = Math.ceil(this.height / this.rowHeight),
      n = this.rows.length;
    const at = Math.min(Math.floor(this.top / this.rowHeight), Math.max(0, n - seen));
    const first = Math.max(0, at - BEYOND),
      last = Math.min(n, at + seen + BEYOND);
    if (!changed && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const space = (k) =>
      k > 0
        ? el(
            'tr',
            { class: 'space', 'aria-hidden': 'true', size: { height: `${k * this.rowHeight}px` } },
            el('td', { colspan: this.columns.length }),
          )
        : null;
    replace(
      this.body,
      space(first),
      this.rows.slice(first, last).map((row, i) =>
        el(
          'tr',
          { class: this.rowClass?.(row), 'aria-rowindex': first + i + 2 },
          this.columns.map((c) => el('td', { class: c.cls }, c.cell(row))),
        ),
      ),
      space(n - last),
    );
  }
}
