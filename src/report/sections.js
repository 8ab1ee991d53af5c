// The parts of the page beside its charts. They are called when `runs` and the rest of page.js are
// there.

function stateOf(run) {
  if (run.end === 'done') return 'done';
  if (run.end === 'error') return 'ended by an error';
  if (run.end) return 'ended by ' + run.end;
  return 'under way, or killed';
}
function machineOf(run) {
  const ranks = Number(run.facts.ranks || 1);
  return (run.facts.device || '–') + (ranks > 1 ? `, ${plain(ranks)} ranks` : '');
}
const versionOf = (run) =>
    run.facts.version ? `${run.facts.version} (${run.facts.commit || 'unknown'})` : '–';

function figuresOfOne(run) {
  const t = run.totals;
  const figure = (name, value, more) =>
      el('div', {}, el('dt', {}, name), el('dd', {}, value, more && el('small', {}, more)));
  const best = t.best_validation;
  return el(
      'dl', {class: 'figures'}, figure('Steps', count(t.steps), stateOf(run)),
      figure('Loss', digits(t.loss, 5), 'mean of the last 32 steps'),
      best &&
          figure(
              'Validation loss', digits(t.last_validation.loss, 5),
              `lowest ${digits(best.loss, 5)} at step ${plain(best.step)}`),
      figure('Tokens', known(t.tokens) ? short(t.tokens) : '–', 'in ' + duration(t.seconds)),
      figure('Tokens per second', count(t.tokens_per_s), 'median of the steps'),
      known(t.targets_per_s) && t.targets_per_s !== t.tokens_per_s &&
          figure('Targets per second', count(t.targets_per_s), 'median of the steps'),
      known(t.mfu) &&
          figure(
              'MFU', percent(t.mfu),
              known(t.mfu_attended) ? `${percent(t.mfu_attended)} without masked attention` :
                                      'median of the steps'),
      run.facts.parameters &&
          figure('Parameters', short(Number(run.facts.parameters)), machineOf(run)));
}

function figuresOfMany() {
  const row = (name, value) => [name, ...runs.map(value)];
  const rows = [
    row('State', stateOf), row('Steps', (r) => count(r.totals.steps)),
    row('Loss, last 32 steps', (r) => digits(r.totals.loss, 5)),
    row('Validation loss, last',
        (r) => r.totals.last_validation ? digits(r.totals.last_validation.loss, 5) : '–'),
    row('Validation loss, lowest',
        (r) => r.totals.best_validation ? `${digits(r.totals.best_validation.loss, 5)} at step ${
                                              plain(r.totals.best_validation.step)}` :
                                          '–'),
    row('Tokens', (r) => known(r.totals.tokens) ? short(r.totals.tokens) : '–'),
    row('Time of training', (r) => duration(r.totals.seconds)),
    row('Tokens per second, median', (r) => count(r.totals.tokens_per_s)),
    row('Targets per second, median', (r) => count(r.totals.targets_per_s)),
    row('MFU, median', (r) => percent(r.totals.mfu)),
    row('MFU without masked attention, median', (r) => percent(r.totals.mfu_attended)),
    row('Parameters', (r) => r.facts.parameters ? short(Number(r.facts.parameters)) : '–'),
    row('Machine', machineOf), row('strata', versionOf)
  ];
  const drawn =
      table(['', ...runs.map((run) => el('span', {}, swatch(run), run.name))], rows, 'compare');
  drawn.style.marginTop = '20px';
  return drawn;
}

function notes() {
  const lines = runs.flatMap(
      (run) => run.notes.map((note) => el('p', {}, many ? run.name + ': ' : '', note)));
  return lines.length > 0 && el('div', {class: 'notes', role: 'note'}, lines);
}

function section(title, note, ...content) {
  return el(
      'section', {}, el('h2', {}, title), note && el('p', {class: 'soft small'}, note), content);
}

function memorySection() {
  const bars = memoryBars(runs);
  return bars &&
      section(
             'Memory against plan',
             'Of rank 0. The frame is what was planned before anything was allocated, the bar what was ' +
                 'measured when the run ended.',
             bars);
}
function lanesSection() {
  const bars = laneBars(runs);
  return bars &&
      section(
             'Time of each lane',
             'Of rank 0, for one of the traced steps. The light bar is the time in which a lane worked, ' +
                 'the full one the time in which compute waited for it (exposed).',
             bars);
}
function timelineSection() {
  const traced = runs.filter((run) => run.timeline);
  if (traced.length === 0) return null;
  return section('Timeline of two traced steps', null, traced.map((run) => {
    const timeline = new Timeline(run);
    drawings.push(timeline);
    if (many) timeline.node.prepend(el('h3', {style: {marginBottom: '8px'}}, run.name));
    return timeline.node;
  }));
}

function fp8Section() {
  const counted = runs.filter((run) => run.fp8);
  if (counted.length === 0) return null;
  const head = [
    'Run', {number: 'Step'}, 'Product', 'Operand', {number: 'Layer'}, {number: 'Flushed to zero'},
    {number: 'Subnormal'}, {number: 'Largest magnitude'}
  ];
  const rows = counted.flatMap(
      (run) => run.fp8.last.map(
          (of) =>
              [run.name, {number: plain(run.fp8.step)}, of.linear, of.operand,
               {number: plain(of.layer)}, {number: share(of.flushed)},
               {number: share(of.subnormal)}, {number: digits(of.amax, 3)}]));
  const first = many ? 0 : 1;
  return section(
      'Products in e4m3',
      'Of each product the operand and the layer in which rounding made most numbers zero, in ' +
          'the last step that counted; metrics.jsonl has all.',
      table(head.slice(first), rows.map((row) => row.slice(first)), 'events'));
}

function sampleOf(run, sample) {
  return el(
      'div', {class: 'sample', style: {borderColor: run.color}},
      el('p', {class: 'soft small'}, many ? run.name + ', ' : '', 'step ' + plain(sample.step),
         sample.finish === 'nonfinite' ? ', ended by a logit that is not finite' : ''),
      el('pre', {}, el('span', {class: 'soft'}, sample.prompt), sample.text));
}
function samplesSection() {
  const steps = [...new Set(runs.flatMap((run) => run.samples.list.map((s) => s.step)))].sort(
      (a, b) => a - b);
  if (steps.length === 0) return null;
  const shown = el('div', {});
  const label = el('output', {});
  const show = (index) => {
    label.textContent = 'after step ' + plain(steps[index]);
    // Of a run that drew none then, what it drew last before.
    shown.replaceChildren(...runs.flatMap((run) => {
      const at = Math.max(
          -1, ...run.samples.list.map((s) => s.step).filter((step) => step <= steps[index]));
      return run.samples.list.filter((s) => s.step === at).map((s) => sampleOf(run, s));
    }));
  };
  const slider = el('input', {
    type: 'range',
    min: 0,
    max: steps.length - 1,
    value: steps.length - 1,
    'aria-label': 'step of the samples',
    oninput: (event) => show(Number(event.target.value))
  });
  slider.value = String(steps.length - 1);
  show(steps.length - 1);
  const left = runs.filter((run) => run.samples.list.length < run.samples.count);
  return el(
      'section', {class: 'samples'}, el('h2', {}, 'Samples'),
      el('div', {class: 'pick'}, steps.length > 1 && slider, label), shown,
      left.length > 0 &&
          el('p', {class: 'soft small'},
             `Some of ${
                 plain(Math.max(...left.map(
                     (run) => run.samples.count)))} samples are shown; samples.jsonl has all.`));
}

function eventsSection() {
  const rows = [];
  let more = 0;
  for (const run of runs) {
    const add = (step, what, text, time, size) => rows.push([
      many && el('span', {}, run.name), {number: plain(step)}, what, {number: time || ''},
      {number: size || ''}, text || '', run
    ]);
    for (const s of run.saves.list)
      add(s.step, s.weights ? 'weights' : 'checkpoint', s.saved ? '' : 'not saved: ' + s.failure,
          duration(s.seconds), bytes(s.bytes));
    for (const r of run.rollbacks.list) add(r.step, 'went back', r.what);
    for (const s of run.skipped.list) add(s.step, 'skipped', s.what);
    for (const r of run.resumes.list) add(r.step, 'went on', r.checkpoint);
    for (const list of [run.saves, run.rollbacks, run.skipped, run.resumes])
      more += list.count - list.list.length;
  }
  if (rows.length === 0) return null;
  rows.sort(
      (a, b) => runs.indexOf(a[6]) - runs.indexOf(b[6]) ||
          Number(a[1].number.replace(/,/g, '')) - Number(b[1].number.replace(/,/g, '')));
  const first = many ? 0 : 1;
  const head = [
    'Run', {number: 'Step'}, 'Event', {number: 'Time'}, {number: 'Size'}, 'Details'
  ].slice(first);
  const drawn = table(head, rows.map((row) => row.slice(first, 6)), 'events');
  return section(
      'Checkpoints and events',
      more > 0 ? `The newest of each kind; ${plain(more)} earlier ones are in metrics.jsonl.` :
                 null,
      rows.length > 12 ? el('details', {class: 'events-list'},
                            el('summary', {}, `${plain(rows.length)} events`), drawn) :
                         drawn);
}

function configSection() {
  const shown = (value) => value === '' ? '–' : value;
  const differing = many &&
      (data.differences.length > 0 ?
           el('div', {},
              table(
                  ['Key', ...runs.map((run) => el('span', {}, swatch(run), run.name))],
                  data.differences.map(
                      (d) =>
                          [el('code', {}, d.path),
                           ...d.values.map((v) => el('code', {}, shown(v)))]),
                  'compare')) :
           el('p', {class: 'soft'}, 'The configs are the same.'));
  const whole =
      runs.filter((run) => run.config.length > 0)
          .map(
              (run) => el(
                  'details', {},
                  el('summary', {}, many ? run.name + ': ' : '', `all ${run.config.length} keys`),
                  table(
                      null,
                      run.config.map(
                          ([path, value]) => [el('code', {}, path), el('code', {}, value)]))));
  if (whole.length === 0) return null;
  return [
    many && section('Differences of the configs', null, differing), section('Config', null, whole)
  ];
}
