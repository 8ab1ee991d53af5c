// Memory against the plan, and where the time of traced steps went, as bars.

/** A bar with its name and value: `parts` are [share of the whole, colour, kind]. */
function bar(name, parts, value) {
  const width = (share) => Math.max(0, Math.min(1, share)) * 100 + '%';
  return el(
      'div', {class: 'row'}, el('span', {class: 'name'}, name),
      el('span', {class: 'track'},
         parts.map(
             ([share, color, kind]) =>
                 el('i', {class: kind, style: {width: width(share), background: color}}))),
      el('span', {class: 'value'}, value));
}

function memoryBars(runs) {
  const rows = [];
  for (const run of runs) {
    const m = run.memory;
    const pairs = [
      ['Device', m.device_planned, m.device_measured], ['Host', m.host_planned, m.host_peak]
    ].filter(([, planned, measured]) => known(planned) || known(measured));
    if (pairs.length === 0) continue;
    if (runs.length > 1) rows.push(el('span', {class: 'of'}, run.name));
    for (const [name, planned, measured] of pairs) {
      const whole = 1.02 * Math.max(planned || 0, measured || 0) || 1;
      const parts = [];
      if (known(measured)) parts.push([measured / whole, run.color]);
      if (known(planned)) parts.push([planned / whole, null, 'plan']);
      const share = known(measured) && planned > 0 ? measured / planned : NaN;
      rows.push(bar(name, parts, [
        known(measured) ? bytes(measured) : 'not measured yet',
        el('span', {class: 'soft'},
           known(planned) && ['of ' + bytes(planned), el('span', {class: 'long'}, ' planned')]),
        known(share) &&
            el('span', {class: share > 1.02 ? 'over' : 'soft'},
               ' ' + (100 * share).toFixed(0) + ' %')
      ]));
    }
  }
  return rows.length > 0 && el('div', {class: 'bars'}, rows);
}

function laneBars(runs) {
  const rows = [];
  for (const run of runs) {
    for (const traced of run.lanes) {
      const lanes = [...traced.lanes, {...traced.updates, lane: 'updates'}].filter(
          (l) => l.busy > 0 || l.exposed > 0);
      if (lanes.length === 0) continue;
      const whole = Math.max(...lanes.map((l) => Math.max(l.busy, l.exposed)));
      rows.push(
          el('span', {class: 'of'}, runs.length > 1 ? run.name + ', ' : '',
             `steps ${plain(traced.step)} and ${plain(traced.step + 1)}`));
      for (const lane of lanes) {
        const isCompute = lane.lane === 'compute';
        rows.push(
            bar(lane.lane,
                [
                  [lane.busy / whole, `color-mix(in srgb, ${run.color} 32%, var(--well))`],
                  [isCompute ? 0 : lane.exposed / whole, run.color]
                ],
                [
                  duration(lane.busy) + ' busy',
                  !isCompute && el('span', {class: 'soft'}, duration(lane.exposed) + ' exposed')
                ]));
      }
    }
  }
  return rows.length > 0 && el('div', {class: 'bars'}, rows);
}
