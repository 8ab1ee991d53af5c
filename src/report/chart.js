// A chart of curves over the shared horizontal axis, as SVG: drawn anew when its width or what is
// chosen changes. Dragging over it zooms all charts; pointing at it reads values.

let charts = 0;

class Chart {
  /** `what` has title, unit, curves(run) -> {raw, line, dots, marks}, and scale(), zero, text. */
  constructor(what, runs, state) {
    this.what = what;
    this.runs = runs;
    this.state = state;
    this.id = 'clip' + charts++;
    this.holder = el('div', {});
    this.tip = el('div', {class: 'tip', hidden: true});
    this.figure =
        el('figure', {class: what.wide ? 'wide' : null},
           el('figcaption', {}, el('h3', {}, what.title),
              what.unit && el('span', {class: 'soft'}, what.unit), what.extra),
           this.holder, this.tip, what.keys);
    drawnByWidth(this.holder, () => this.draw());
  }

  draw() {
    const {what, state} = this;
    this.width = this.holder.clientWidth;
    if (this.width === 0) return;
    this.series = this.runs.filter((run) => !state.hidden.has(run))
                      .map((run) => this.place(run))
                      .filter(Boolean);
    if (this.series.length === 0) {
      this.holder.replaceChildren(el('div', {class: 'none'}, what.none || 'No data.'));
      return;
    }
    this.size();
    this.range();
    const parts = [svg('defs', {}, svg('clipPath', {id: this.id}, svg('rect', {
                                         x: this.left,
                                         y: this.top - 4,
                                         width: this.right - this.left + 6,
                                         height: this.bottom - this.top + 8
                                       })))];
    for (const [value, text] of this.yTicks) {
      const y = this.y(value);
      parts.push(
          svg('line', {class: 'grid', x1: this.left, x2: this.right, y1: y, y2: y}),
          svg('text', {x: this.left - 8, y: y + 4, 'text-anchor': 'end'}, text));
    }
    parts.push(svg(
        'line', {class: 'base', x1: this.left, x2: this.right, y1: this.bottom, y2: this.bottom}));
    for (const [value, text] of this.xTicks) {
      const x = this.x(value);
      const anchor = x > this.right - 14 ? 'end' : x < this.left + 6 ? 'start' : 'middle';
      parts.push(
          svg('line', {class: 'base', x1: x, x2: x, y1: this.bottom, y2: this.bottom + 4}),
          svg('text', {x, y: this.bottom + 17, 'text-anchor': anchor}, text));
    }
    const inside = svg('g', {'clip-path': `url(#${this.id})`});
    for (const s of this.series) {
      if (s.raw) inside.append(this.path(s.raw, s, 'line' + (s.line ? ' faint' : '')));
    }
    for (const s of this.series) {
      if (s.line) inside.append(this.path(s.line, s, 'line'));
      if (s.dots) inside.append(...this.dots(s));
      if (s.marks) inside.append(...this.marks(s));
    }
    this.cursor =
        svg('line', {class: 'cursor', y1: this.top, y2: this.bottom, visibility: 'hidden'});
    this.band = svg(
        'rect', {class: 'band', y: this.top, height: this.bottom - this.top, visibility: 'hidden'});
    this.points = svg('g', {});
    const drawing = svg(
        'svg', {viewBox: `0 0 ${this.width} ${this.height}`, role: 'img', 'aria-label': what.title},
        parts, inside, this.band, this.cursor, this.points);
    this.listen(drawing);
    this.holder.replaceChildren(drawing);
  }

  /** The curves of a run at their places on the horizontal axis. */
  place(run) {
    const curves = this.what.curves(run, this.state);
    if (!curves) return null;
    const at = (curve) => curve &&
        {x: curve.x.map((step) => position(run, this.state.axis, step)), y: curve.y, step: curve.x};
    return {
      run,
      raw: at(curves.raw),
      line: at(curves.line),
      dots: curves.dots,
      marks: curves.marks &&
          curves.marks.map((m) => ({...m, x: position(run, this.state.axis, m.step)}))
    };
  }

  size() {
    this.height =
        Math.round(this.what.wide ? Math.min(330, Math.max(220, this.width * 0.42)) : 210);
    this.left = 46;
    this.right = this.width - 8;
    this.top = 10;
    this.bottom = this.height - 24;
  }

  /** Decides which part of the axes is shown, and with which ticks. */
  range() {
    const {what, state} = this;
    this.isLog = what.scale ? what.scale(state) === 'log' : false;
    let [x0, x1] = [Infinity, -Infinity];
    for (const s of this.series) {
      for (const x of (s.raw || s.line).x) {
        x0 = Math.min(x0, x);
        x1 = Math.max(x1, x);
      }
    }
    if (state.zoom) [x0, x1] = state.zoom;
    if (!(x1 > x0)) {
      x0 -= 0.5;
      x1 += 0.5;
    }
    const [y0, y1] = this.verticalRange(x0, x1);
    const log = this.isLog;
    this.x = (v) => this.left + (v - x0) / (x1 - x0) * (this.right - this.left);
    this.valueAt = (px) => x0 + (px - this.left) / (this.right - this.left) * (x1 - x0);
    this.y = (v) => this.bottom -
        (log ? Math.log(v / y0) / Math.log(y1 / y0) : (v - y0) / (y1 - y0)) *
            (this.bottom - this.top);
    const most = Math.max(2, Math.floor((this.right - this.left) / 90));
    const whole = (v) => v >= 1e4 ? short(v) : plain(v);
    this.xTicks = linearTicks(x0, x1, most, state.axis === 'step' ? whole : null);
    if (state.axis === 'step') this.xTicks = this.xTicks.filter(([v]) => Number.isInteger(v));
    this.yTicks = log ? logTicks(y0, y1, 6) :
                        linearTicks(y0, y1, Math.round((this.bottom - this.top) / 46), what.tick);
    const longest = Math.max(0, ...this.yTicks.map(([, text]) => text.length));
    this.left = Math.max(34, 12 + 6.6 * longest);
  }

  /** The values between two places, with some room around them. */
  verticalRange(x0, x1) {
    const {what} = this;
    let [y0, y1] = [Infinity, -Infinity];
    for (const s of this.series) {
      for (const curve of [s.raw, s.line]) {
        if (!curve) continue;
        for (let i = 0; i < curve.x.length; ++i) {
          const y = curve.y[i];
          // A point out of sight counts if a line goes from it to where one looks.
          const out =
              curve.x[Math.min(i + 1, curve.x.length - 1)] < x0 || curve.x[Math.max(i - 1, 0)] > x1;
          if (out || !this.shows(y)) continue;
          y0 = Math.min(y0, y);
          y1 = Math.max(y1, y);
        }
      }
    }
    if (!(y1 >= y0)) [y0, y1] = this.isLog ? [0.1, 1] : [0, 1];
    if (what.zero) y0 = Math.min(0, y0);
    if (y0 === y1) {
      const wide = Math.abs(y0) / 10 || 1;
      [y0, y1] = this.isLog ? [y0 / 2, y1 * 2] : [what.zero ? 0 : y0 - wide, y1 + wide];
    }
    if (this.isLog) {
      const more = (y1 / y0) ** 0.04;
      [y0, y1] = [y0 / more, y1 * more];
    } else {
      const more = (y1 - y0) * 0.04;
      [y0, y1] = [what.zero && y0 === 0 ? 0 : y0 - more, y1 + more];
    }
    return [y0, y1];
  }

  /** Whether a value has a place: differences, or on a log scale quotients, must be finite. */
  shows(y) {
    return known(y) && (this.isLog ? y >= 1e-140 && y <= 1e140 : Math.abs(y) <= 1e300);
  }

  path(curve, s, kind) {
    let text = '';
    let pen = 'M';
    for (let i = 0; i < curve.x.length; ++i) {
      const y = curve.y[i];
      if (!this.shows(y)) {
        pen = 'M';
        continue;
      }
      text += pen + this.x(curve.x[i]).toFixed(1) + ' ' + this.y(y).toFixed(1);
      // A point without neighbours is drawn as a dot by its round ends.
      if (pen === 'M' && !this.shows(curve.y[i + 1])) text += 'h0.01';
      pen = 'L';
    }
    const isLine = text.includes('L');
    return svg('path', {
      class: kind,
      d: text || null,
      stroke: s.run.color,
      'stroke-dasharray': isLine ? s.run.dash : null,
      style: isLine ? null : {strokeWidth: '4'}
    });
  }

  dots(s) {
    const curve = s.raw;
    if (curve.x.length * this.series.length > 240 || curve.x.length > 60) return [];
    const dots = [];
    for (let i = 0; i < curve.x.length; ++i) {
      if (this.shows(curve.y[i]))
        dots.push(svg('circle', {
          class: 'dot',
          r: 3.6,
          cx: this.x(curve.x[i]),
          cy: this.y(curve.y[i]),
          fill: s.run.color
        }));
    }
    return dots;
  }

  marks(s) {
    const drawn = [];
    for (const mark of s.marks) {
      const x = this.x(mark.x);
      if (!(x >= this.left - 1 && x <= this.right + 1)) continue;
      if (mark.kind === 'save') {
        drawn.push(svg('path', {
          class: 'mark-save',
          d: `M${x - 3.5} ${this.bottom + 1}h7l-3.5 -6z`,
          style: {fill: this.runs.length > 1 ? s.run.color : null}
        }));
      } else if (mark.kind === 'bad') {
        drawn.push(svg(
            'line',
            {class: 'mark-bad', x1: x, x2: x, y1: this.top, y2: this.bottom, stroke: s.run.color}));
      } else {
        drawn.push(svg('path', {class: 'mark-skip', d: `M${x - 3.5} ${this.top}l7 7m0 -7l-7 7`}));
      }
    }
    return drawn;
  }

  listen(drawing) {
    let from = null;
    const px = (event) => {
      const box = drawing.getBoundingClientRect();
      return Math.min(
          this.right, Math.max(this.left, (event.clientX - box.left) * this.width / box.width));
    };
    drawing.addEventListener('pointerdown', (event) => {
      if (event.pointerType === 'mouse' && event.button === 0) {
        from = px(event);
        drawing.setPointerCapture(event.pointerId);
      } else
        this.read(px(event));
    });
    drawing.addEventListener('pointermove', (event) => {
      const to = px(event);
      if (from === null) {
        this.read(to);
        return;
      }
      this.band.setAttribute('x', Math.min(from, to));
      this.band.setAttribute('width', Math.abs(to - from));
      this.band.setAttribute('visibility', 'visible');
    });
    drawing.addEventListener('pointerup', (event) => {
      if (from === null) return;
      const to = px(event);
      const range = [this.valueAt(Math.min(from, to)), this.valueAt(Math.max(from, to))];
      const wide = Math.abs(to - from) > 6;
      from = null;
      this.band.setAttribute('visibility', 'hidden');
      if (wide) this.state.setZoom(range);
    });
    drawing.addEventListener('dblclick', () => this.state.setZoom(null));
    drawing.addEventListener('pointerleave', () => {
      if (from === null) this.unread();
    });
  }

  unread() {
    this.tip.hidden = true;
    this.cursor.setAttribute('visibility', 'hidden');
    this.points.replaceChildren();
  }

  /** Shows the values next to a place. */
  read(px) {
    const want = this.valueAt(px);
    const rows = [];
    let at = null;
    this.points.replaceChildren();
    for (const s of this.series) {
      const curve = s.line || s.raw;
      let best = -1;
      for (let i = 0; i < curve.x.length; ++i) {
        if (known(curve.y[i]) &&
            (best < 0 || Math.abs(curve.x[i] - want) < Math.abs(curve.x[best] - want)))
          best = i;
      }
      if (best < 0) continue;
      const far = Math.abs(this.x(curve.x[best]) - px);
      if (far > 40 && this.series.length > 1) continue;
      if (at === null || far < at.far) at = {far, x: curve.x[best], step: curve.step[best]};
      if (this.shows(curve.y[best])) {
        this.points.append(svg('circle', {
          class: 'dot',
          r: 4,
          cx: this.x(curve.x[best]),
          cy: this.y(curve.y[best]),
          fill: s.run.color
        }));
      }
      rows.push(el(
          'div', {}, swatch(s.run), this.runs.length > 1 && el('span', {class: 'name'}, s.run.name),
          el('b', {}, this.what.text(curve.y[best]))));
    }
    if (at === null) {
      this.unread();
      return;
    }
    const axis = AXES[this.state.axis];
    const head = 'step ' + plain(at.step) +
        (this.state.axis === 'step' ? '' : ', ' + axis.text(at.x) + ' ' + axis.label);
    this.tip.replaceChildren(el('div', {class: 'soft'}, head), ...rows);
    this.tip.hidden = false;
    const x = this.x(at.x);
    this.cursor.setAttribute('x1', x);
    this.cursor.setAttribute('x2', x);
    this.cursor.setAttribute('visibility', 'visible');
    const room = this.figure.clientWidth - this.tip.offsetWidth;
    this.tip.style.left =
        Math.max(0, Math.min(room, x > this.width / 2 ? x - this.tip.offsetWidth - 12 : x + 12)) +
        'px';
    this.tip.style.top = this.holder.offsetTop + 12 + 'px';
  }
}
