// The lanes of two traced steps over time, on a canvas, since there may be tens of thousands of
// spans. Dragging zooms, buttons move; pointing at a span says what it is.

const PHASES = ['forward', 'head', 'backward', 'offload', 'update', 'evaluate'];
const PHASE_TEXT = {
  forward: 'forward',
  head: 'head: loss and its backward',
  backward: 'backward',
  offload: 'gradients leave',
  update: 'norms and updates',
  evaluate: 'validation',
  other: 'other'
};

class Timeline {
  constructor(run) {
    const data = run.timeline;
    this.data = data;
    this.lanes = data.lanes.map((lane) => this.decode(lane));
    const units = this.unitRow();
    if (units.spans.length > 0) this.lanes.unshift(units);
    this.end = Math.max(
        ...this.lanes.map((lane) => lane.spans.length ? lane.spans[lane.spans.length - 1].end : 0),
        1);
    this.view = [0, this.end];
    this.canvas = el('canvas', {tabindex: 0, role: 'img', 'aria-label': 'lanes over time'});
    this.info = el('div', {class: 'read'}, this.hint());
    const button = (text, title, act) => el('button', {type: 'button', title, onclick: act}, text);
    const used = new Set(data.phases.map((p) => PHASES.includes(p) ? p : 'other'));
    this.node = el(
        'div', {class: 'timeline'},
        el('div', {class: 'bar'},
           el('span', {class: 'choices'}, button('−', 'show more time', () => this.zoom(1.6)),
              button('+', 'show less time', () => this.zoom(1 / 1.6)),
              button('‹', 'earlier', () => this.move(-0.4)),
              button('›', 'later', () => this.move(0.4)),
              button('All', 'both steps', () => this.show(0, this.end))),
           el('span', {class: 'keys'},
              [...PHASES, 'other']
                  .filter((p) => used.has(p))
                  .map(
                      (p) => el(
                          'span', {}, el('i', {class: 'patch', style: {background: `var(--${p})`}}),
                          PHASE_TEXT[p])))),
        this.canvas, this.info);
    this.listen();
    drawnByWidth(this.canvas, () => this.draw());
  }

  hint() {
    const {events, spans} = this.data;
    return (spans < events ? `${plain(events)} pieces of work, shown as ${
                                 plain(spans)}: short neighbours were put together. ` :
                             `${plain(events)} pieces of work. `) +
        'Drag to zoom, point at one to read it.';
  }

  decode(lane) {
    const spans = [];
    let at = 0;
    for (let i = 0; i < lane.spans.length; i += 8) {
      const [pause, length, name, phase, pass, unit, cell, events] = lane.spans.slice(i, i + 8);
      const begin = at + pause;
      at = begin + length;
      spans.push({
        begin: begin / 10,
        end: at / 10,
        name: this.data.names[name],
        phase: this.data.phases[phase],
        pass,
        unit,
        cell,
        events
      });
    }
    return {name: lane.name, spans};
  }

  /** What the compute lane works at, as runs of one unit. */
  unitRow() {
    const compute = this.lanes.find((lane) => lane.name === 'compute');
    const spans = [];
    for (const span of compute ? compute.spans : []) {
      const last = spans[spans.length - 1];
      if (span.unit < 0) continue;
      if (last && last.unit === span.unit && last.phase === span.phase && last.pass === span.pass)
        last.end = Math.max(last.end, span.end);
      else
        spans.push({...span, name: 'unit ' + span.unit, cell: -1, events: 1, isUnit: true});
    }
    return {name: 'unit', spans};
  }

  show(from, to) {
    const wide = Math.min(this.end, Math.max(2, to - from));
    const begin = Math.max(0, Math.min(this.end - wide, from));
    this.view = [begin, begin + wide];
    this.draw();
  }
  zoom(factor, at) {
    const [from, to] = this.view;
    const middle = at === undefined ? (from + to) / 2 : at;
    this.show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }
  move(share) {
    const by = share * (this.view[1] - this.view[0]);
    this.show(this.view[0] + by, this.view[1] + by);
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    const [label, bar, gap, axis] = [15, 20, 9, 24];
    this.rowHeight = label + bar + gap;
    this.barTop = label;
    this.barHeight = bar;
    const height = this.lanes.length * this.rowHeight + axis;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) ||
        this.canvas.style.height !== height + 'px') {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = height + 'px';
    }
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue('--' + name).trim();
    const colors = Object.fromEntries([...PHASES, 'other'].map((p) => [p, color(p)]));
    const font = getComputedStyle(document.body).fontFamily;
    const [from, to] = this.view;
    const scale = width / (to - from);
    this.toX = (t) => (t - from) * scale;
    this.toTime = (x) => from + x / scale;
    pen.font = '11.5px ' + font;
    this.axis(pen, width, height - axis, color);
    for (const [row, lane] of this.lanes.entries()) {
      const top = row * this.rowHeight;
      pen.fillStyle = color('soft');
      pen.textAlign = 'left';
      pen.fillText(lane.name, 0, top + 11);
      pen.fillStyle = color('well');
      pen.fillRect(0, top + label, width, bar);
      this.spans(pen, lane.spans, top + label, bar, colors, color('on-span'), width);
    }
    if (this.drag) {
      pen.fillStyle = color('run0');
      pen.globalAlpha = 0.15;
      pen.fillRect(Math.min(...this.drag), 0, Math.abs(this.drag[1] - this.drag[0]), height - axis);
      pen.globalAlpha = 1;
    }
  }

  axis(pen, width, bottom, color) {
    const [from, to] = this.view;
    const ticks = linearTicks(from / 1000, to / 1000, Math.max(2, Math.floor(width / 110)));
    const seconds = to - from > 4e6;
    pen.fillStyle = color('soft');
    pen.strokeStyle = color('line');
    for (const [value, text] of ticks) {
      const x = Math.round(this.toX(value * 1000)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, bottom + 4);
      pen.stroke();
      pen.textAlign = x < 20 ? 'left' : x > width - 20 ? 'right' : 'center';
      pen.fillText(
          seconds ? trimmed((value / 1000).toFixed(3)) + ' s' : text + ' ms', x, bottom + 17);
    }
  }

  spans(pen, spans, top, height, colors, onSpan, width) {
    let [low, high] = [0, spans.length];
    while (low < high) {  // the first that ends in sight
      const middle = (low + high) >> 1;
      if (spans[middle].end < this.view[0])
        low = middle + 1;
      else
        high = middle;
    }
    let drawn = -1;
    let drawnColor = '';
    for (let i = low; i < spans.length && spans[i].begin <= this.view[1]; ++i) {
      const span = spans[i];
      const x0 = Math.max(0, this.toX(span.begin));
      const x1 = Math.min(width, this.toX(span.end));
      const fill = colors[span.phase] || colors.other;
      const wide = Math.max(0.7, x1 - x0 - (x1 - x0 > 4 ? 1 : 0));
      if (x1 < drawn + 0.4 && fill === drawnColor) continue;
      pen.fillStyle = fill;
      pen.fillRect(x0, top, wide, height);
      drawn = x0 + wide;
      drawnColor = fill;
      if (x1 - x0 < (span.isUnit ? 14 : 52)) continue;
      pen.fillStyle = onSpan;
      pen.textAlign = 'center';
      const text = span.isUnit ? (x1 - x0 > 52 ? span.name : String(span.unit)) : span.name;
      const cut = text.slice(0, Math.floor((x1 - x0 - 8) / 6.2) || 1);
      pen.fillText(cut, (x0 + x1) / 2, top + 14);
    }
  }

  find(x, y) {
    const row = Math.floor(y / this.rowHeight);
    const lane = this.lanes[row];
    if (!lane) return null;
    const time = this.toTime(x);
    const near = 2 / this.canvas.clientWidth * (this.view[1] - this.view[0]);
    let best = null;
    for (const span of lane.spans) {
      if (span.begin - near > time) break;
      if (span.end + near >= time) best = span;
    }
    return best && {lane, span: best};
  }

  tell(found) {
    if (!found) {
      this.info.replaceChildren(this.hint());
      return;
    }
    const {lane, span} = found;
    const where = [
      span.phase, span.pass >= 0 && 'pass ' + span.pass, span.unit >= 0 && 'unit ' + span.unit,
      span.cell >= 0 && 'cell ' + span.cell
    ].filter(Boolean).join(', ');
    this.info.replaceChildren(
        el('b', {}, span.name + (span.events > 1 ? ` and ${plain(span.events - 1)} more` : '')),
        ` on ${lane.name}`, where && ` · ${where}`, el('br'),
        `${milliseconds(span.end - span.begin)}, from ${milliseconds(span.begin)} to ${
            milliseconds(span.end)}`);
  }

  listen() {
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.canvas.addEventListener('pointerdown', (event) => {
      const [x, y] = place(event);
      if (event.pointerType === 'mouse' && event.button === 0) {
        this.drag = [x, x];
        this.canvas.setPointerCapture(event.pointerId);
      }
      this.tell(this.find(x, y));
    });
    this.canvas.addEventListener('pointermove', (event) => {
      const [x, y] = place(event);
      if (!this.drag) {
        this.tell(this.find(x, y));
        return;
      }
      this.drag[1] = x;
      this.draw();
    });
    this.canvas.addEventListener('pointerup', () => {
      if (!this.drag) return;
      const [a, b] = [Math.min(...this.drag), Math.max(...this.drag)];
      this.drag = null;
      if (b - a > 5)
        this.show(this.toTime(a), this.toTime(b));
      else
        this.draw();
    });
    this.canvas.addEventListener('dblclick', () => this.show(0, this.end));
    this.canvas.addEventListener('pointerleave', () => {
      if (!this.drag) this.tell(null);
    });
    this.canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;  // plain turning of the wheel scrolls the page
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.toTime(place(event)[0]));
    }, {passive: false});
    this.canvas.addEventListener('keydown', (event) => {
      const act = {
        ArrowLeft: () => this.move(-0.2),
        ArrowRight: () => this.move(0.2),
        '+': () => this.zoom(1 / 1.6),
        '-': () => this.zoom(1.6),
        Escape: () => this.show(0, this.end)
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }
}
