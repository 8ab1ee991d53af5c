// Scales, their ticks, and what a step is on the horizontal axis.

function niceStep(span, most) {
  const raw = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  const lead = raw / power;
  return (lead <= 1.5 ? 1 : lead <= 3 ? 2 : lead <= 7 ? 5 : 10) * power;
}

/** Ticks of a linear axis, each with its text. */
function linearTicks(low, high, most, text) {
  const step = niceStep(high - low, most);
  if (!(step > 0)) return [];  // the range is too narrow for numbers between its ends
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first;
  const ticks = [];
  // Counted from 0, since 1 more than a great number may be the same number.
  for (let i = 0; i <= count; ++i) {
    const value = (first + i) * step;
    ticks.push([
      value,
      text                       ? text(value) :
          Math.abs(value) >= 1e4 ? short(value) :
          decimals > 12          ? digits(value, 3) :
                                   value.toFixed(decimals)
    ]);
  }
  return ticks;
}

/** Ticks of a logarithmic axis: powers of ten, and 2 and 5 between them where there is room. */
function logTicks(low, high, most) {
  const decades = Math.log10(high / low);
  const leads = decades * 3 <= most ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / most));
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1; ++power) {
    if (power % every !== 0) continue;
    for (const lead of leads) {
      const value = lead * 10 ** power;
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      ticks.push([
        value,
        value >= 1e4 ? short(value) :
                       trimmed(value < 1e-3 ? value.toExponential(0) : value.toPrecision(3))
      ]);
    }
  }
  return ticks.length >= 2 ? ticks : linearTicks(low, high, most, (v) => digits(v, 3));
}

const AXES = {
  step: {name: 'Steps', label: 'step', text: plain},
  tokens: {name: 'Tokens', label: 'tokens', text: short},
  hours: {name: 'Time', label: 'hours of training', text: (v) => trimmed(v.toPrecision(3))},
};

/** Where a step of a run lies on an axis; between steps that the data name it is linear. */
function position(run, axis, step) {
  if (axis === 'step') return step;
  const steps = run.axis.step;
  const values = run.axis[axis];
  if (steps.length === 0) return NaN;
  if (steps.length === 1) return values[0] * step / steps[0];
  let low = 0;
  let high = steps.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step)
      low = middle;
    else
      high = middle;
  }
  const share = (step - steps[low]) / (steps[high] - steps[low]);
  return values[low] + share * (values[high] - values[low]);
}
