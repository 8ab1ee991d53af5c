// Puts the page together from the data that stand in it.

const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;
const many = runs.length > 1;
for (const [i, run] of runs.entries()) {
  run.color = `var(--run${i % 8})`;
  // After eight runs colours come again, with other lines.
  const round = Math.floor(i / 8) % 3;
  run.dash = [null, '7 3', '2 3'][round];
  run.lineStyle = ['solid', 'dashed', 'dotted'][round];
}
const drawings = [];  // what is drawn anew when colours change

const longest = Math.max(0, ...runs.map((run) => run.totals.steps));
const state = {
  axis: 'step',
  zoom: null,
  lossScale: 'linear',
  hidden: new Set(),
  smoothing: longest < 100 ? 0 :
      longest < 2000       ? 10 :
      longest < 20000      ? 50 :
                             200,
  setZoom(range) {
    state.zoom = range;
    resetZoom.hidden = range === null;
    redraw();
  },
};
function redraw() {
  for (const drawing of drawings) drawing.draw();
}

// ---- light and dark -----------------------------------------------------------------------------

const systemDark = matchMedia('(prefers-color-scheme: dark)');
let theme = 'auto';
let printing = false;
function applyTheme() {
  const dark = !printing && (theme === 'dark' || (theme === 'auto' && systemDark.matches));
  document.documentElement.toggleAttribute('data-dark', dark);
  document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
  redraw();
}
systemDark.addEventListener('change', applyTheme);

// ---- curves -------------------------------------------------------------------------------------

function curvesOf(key, isSmooth) {
  return (run) => {
    const series = run.series[key];
    if (!series) return null;
    return {raw: series, line: isSmooth && state.smoothing > 0 && series.smooth[state.smoothing]};
  };
}
function lossCurves(run) {
  const curves = curvesOf('loss', true)(run);
  if (!curves) return null;
  const marks = [];
  const add = (kind, list) => {
    for (const entry of list) marks.push({kind, step: entry.step});
  };
  add('save', run.saves.list.filter((s) => s.saved));
  add('bad', run.rollbacks.list);
  add('skip', run.skipped.list);
  return {...curves, marks};
}
function lossKeys() {
  const key = (drawing, text) => el('span', {}, svg('svg', {viewBox: '0 0 14 12'}, drawing), text);
  const has = (list) => runs.some((run) => list(run).length > 0);
  return el(
      'div', {class: 'keys'},
      has((run) => run.saves.list.filter((s) => s.saved)) &&
          key(svg('path', {class: 'mark-save', d: 'M3 10h8l-4 -7z'}), 'saved'),
      has((run) => run.rollbacks.list) &&
          key(svg('line', {class: 'mark-bad', x1: 7, x2: 7, y1: 0, y2: 12, stroke: 'var(--soft)'}),
              'went back from here'),
      has((run) => run.skipped.list) &&
          key(svg('path', {class: 'mark-skip', d: 'M3 2l8 8m0 -8l-8 8'}), 'step skipped'));
}

const CHARTS = [
  {
    title: 'Loss',
    unit: 'nats a token',
    wide: true,
    curves: lossCurves,
    scale: () => state.lossScale,
    text: (v) => digits(v, 5),
    keys: lossKeys(),
    extra: choices(
        'scale of the loss', [['linear', 'linear'], ['log', 'log']], 'linear',
        (scale) => {
          state.lossScale = scale;
          redraw();
        }),
    none: 'No step has ended yet.'
  },
  {
    title: 'Validation loss',
    unit: 'nats a token',
    text: (v) => digits(v, 5),
    curves: (run) => run.validation.x.length > 0 &&
        {
          raw: run.validation, dots: true
        }
  },
  {
    title: 'Reward margin',
    unit: 'chosen less rejected',
    curves: curvesOf('reward_margin', true),
    text: (v) => digits(v, 4)
  },
  {
    title: 'Preferred answers',
    unit: 'share of the pairs',
    curves: curvesOf('preferred', true),
    zero: true,
    tick: (v) => trimmed((100 * v).toFixed(1)) + ' %',
    text: percent
  },
  {
    title: 'Learning rate',
    curves: curvesOf('lr', false),
    zero: true,
    tick: (v) => trimmed(digits(v, 3)),
    text: (v) => digits(v, 3)
  },
  {
    title: 'Gradient norm',
    unit: 'before clipping',
    curves: curvesOf('grad_norm', true),
    scale: () => 'log',
    text: (v) => digits(v, 4)
  },
  {title: 'Tokens per second', curves: curvesOf('tokens_per_s', true), zero: true, text: count},
  {
    title: 'MFU',
    unit: 'share of the peak',
    curves: curvesOf('mfu', true),
    zero: true,
    tick: (v) => trimmed((100 * v).toFixed(1)) + ' %',
    text: percent
  },
  {
    title: 'Flushed to zero in e4m3',
    unit: 'the largest share of an operand',
    curves: (run) => run.fp8 && {raw: run.fp8.flushed, dots: true},
    zero: true,
    tick: share,
    text: share
  },
];

// ---- controls -----------------------------------------------------------------------------------

const resetZoom =
    el('button', {type: 'button', class: 'plain', hidden: true, onclick: () => state.setZoom(null)},
       'Whole run');
function controls() {
  const smoothings = [0, ...data.smoothings].filter(
      (n) => n === 0 || runs.some((run) => run.series.loss && run.series.loss.smooth[n]));
  if (!smoothings.includes(state.smoothing)) state.smoothing = smoothings[smoothings.length - 1];
  const set = (key) => (value) => {
    state[key] = value;
    if (key === 'axis') {
      state.zoom = null;
      resetZoom.hidden = true;
    }
    redraw();
  };
  return el(
      'div', {class: 'controls'},
      many &&
          el('div', {class: 'runs'},
             runs.map(
                 (run) =>
                     el('button', {
                       type: 'button',
                       'aria-pressed': 'true',
                       onclick: (event) => {
                         const hide = !state.hidden.has(run);
                         if (hide)
                           state.hidden.add(run);
                         else
                           state.hidden.delete(run);
                         event.currentTarget.setAttribute('aria-pressed', String(!hide));
                         redraw();
                       }
                     },
                        swatch(run), run.name))),
      el('span', {class: 'group'}, 'Over',
         choices(
             'horizontal axis', Object.entries(AXES).map(([key, axis]) => [key, axis.name]),
             state.axis, set('axis'))),
      smoothings.length > 1 &&
          el('span', {class: 'group', title: 'curves are means over about so many steps'}, 'Smooth',
             choices(
                 'smoothing, in steps', smoothings.map((n) => [n, n === 0 ? 'off' : plain(n)]),
                 state.smoothing, set('smoothing'))),
      resetZoom);
}

// ---- the page -----------------------------------------------------------------------------------

/** Where the runs are, unless they are too many for a line. */
function subtitle() {
  if (many) return runs.length <= 4 ? runs.map((run) => run.folder).join(' · ') : '';
  const version = versionOf(runs[0]);
  return runs[0].folder + (version === '–' ? '' : ' · strata ' + version);
}

function build() {
  const head =
      el('header', {},
         el('div', {}, el('h1', {}, many ? `${runs.length} runs` : runs[0].name),
            el('div', {class: 'soft small'}, subtitle())),
         el('div', {class: 'theme small'},
            choices(
                'colours', [['auto', 'Auto'], ['light', 'Light'], ['dark', 'Dark']], 'auto',
                (value) => {
                  theme = value;
                  applyTheme();
                })));
  const charts = CHARTS.filter((what) => what.wide || runs.some((run) => what.curves(run)))
                     .map((what) => new Chart(what, runs, state));
  drawings.push(...charts);
  const bar = controls();
  document.getElementById('page').replaceChildren(
      ...[head,
          many ? figuresOfMany() : figuresOfOne(runs[0]),
          notes(),
          bar,
          el('div', {class: 'charts'}, charts.map((chart) => chart.figure)),
          memorySection(),
          lanesSection(),
          timelineSection(),
          fp8Section(),
          samplesSection(),
          eventsSection(),
          configSection(),
          el('footer', {}, `Made by ${data.program}, ${data.made}. Steps are counted from 1. `,
             'Curves of many points show the least and the most of neighbours; metrics.jsonl has ' +
                 'every step.'),
  ].flat().filter(Boolean));
  applyTheme();
}
build();

addEventListener('beforeprint', () => {
  printing = true;
  applyTheme();
  for (const d of document.querySelectorAll('.events-list')) d.open = true;
});
addEventListener('afterprint', () => {
  printing = false;
  applyTheme();
});
