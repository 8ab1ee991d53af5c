'use strict';
// Makes elements and texts. Nothing of the data becomes markup: texts are set as texts.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on'))
      node.addEventListener(name.slice(2), value);
    else if (name === 'style')
      Object.assign(node.style, value);
    else
      node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child);
  }
  return node;
}
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Buttons of which one is pressed. `choices` is a list of [value, text]. */
function choices(label, list, chosen, choose) {
  const buttons = list.map(
      ([value, text]) =>
          el('button', {
            type: 'button',
            'aria-pressed': String(value === chosen),
            onclick: () => {
              for (const [i, button] of buttons.entries())
                button.setAttribute('aria-pressed', String(list[i][0] === value));
              choose(value);
            },
          },
             text));
  return el('span', {class: 'choices', role: 'group', 'aria-label': label}, buttons);
}

/** Draws when the width of a node changes: in the next frame, since drawing may change widths. */
function drawnByWidth(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(node.clientWidth - width) < 1) return;
    width = node.clientWidth;
    requestAnimationFrame(draw);
  }).observe(node);
}

function table(head, rows, kind) {
  const cell = (tag, content) => {
    const isNumber = typeof content === 'object' && content !== null && 'number' in content;
    return el(tag, {class: isNumber ? 'number' : null}, isNumber ? content.number : content);
  };
  return el(
      'div', {class: 'scroll'},
      el('table', {class: kind},
         head && el('thead', {}, el('tr', {}, head.map((h) => cell('th', h)))),
         el('tbody', {}, rows.map((row) => el('tr', {}, row.map((c) => cell('td', c)))))));
}

/** A piece of the line of a run. */
function swatch(run) {
  return el('span', {class: 'swatch', style: {borderColor: run.color, borderStyle: run.lineStyle}});
}

// ---- texts of numbers ---------------------------------------------------------------------------

const known = (value) => typeof value === 'number' && isFinite(value);
const plain = (value) => value.toLocaleString('en-US', {maximumFractionDigits: 0});
function trimmed(text) {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** 1234567 as "1.23M", and a thousand times that as "1.23B". */
function short(value) {
  for (const [size, unit] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']]) {
    if (Math.abs(value) >= size)
      return trimmed((value / size).toPrecision(3).replace(/e.*/, '')) + unit;
  }
  return trimmed(value.toPrecision(3));
}
function count(value) {
  return !known(value) ? '–' : Math.abs(value) < 1e6 ? plain(value) : short(value);
}
function digits(value, many) {
  if (!known(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7)
    return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return size >= 1e4 ? plain(value) : value.toPrecision(many).replace(/e.*/, '');
}
const share = (value) => known(value) ? trimmed((100 * value).toPrecision(3)) + ' %' : '–';
const percent = (value) => known(value) ? (100 * value).toFixed(1) + ' %' : '–';
function bytes(value) {
  if (!known(value)) return '–';
  for (const [size, unit] of [
           [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]) {
    if (value >= size) return (value / size).toPrecision(4).replace(/e.*/, '') + ' ' + unit;
  }
  return plain(value) + ' B';
}
function duration(seconds) {
  if (!known(seconds)) return '–';
  const two = (value) => String(Math.floor(value)).padStart(2, '0');
  if (seconds < 1) return milliseconds(seconds * 1e6);
  if (seconds < 10) return seconds.toFixed(1) + ' s';
  if (seconds < 60) return Math.round(seconds) + ' s';
  if (seconds < 3600) return Math.floor(seconds / 60) + 'm ' + two(seconds % 60) + 's';
  if (seconds < 86400) return Math.floor(seconds / 3600) + 'h ' + two(seconds % 3600 / 60) + 'm';
  return Math.floor(seconds / 86400) + 'd ' + two(seconds % 86400 / 3600) + 'h';
}
function milliseconds(us) {
  if (us >= 1e6) return (us / 1e6).toPrecision(4) + ' s';
  if (us >= 1e3) return (us / 1e3).toPrecision(3) + ' ms';
  return us === 0 ? '0 s' : us.toPrecision(us >= 100 ? 3 : 2) + ' µs';
}
