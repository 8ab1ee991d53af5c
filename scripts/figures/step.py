#!/usr/bin/env python3
"""Draws one step of a trace as an SVG: the lanes over time, coloured by phase.

  scripts/figures/step.py TRACE.json OUT.svg [--step 1|2] [--from MS] [--to MS] [--title TEXT]

TRACE.json is what `--set run.trace_step=N` writes into the run folder: two steps. The second one, which is
drawn unless --step says otherwise, begins as steps amid a run do, with what the one before left to update.
--from and --to cut a part out, in milliseconds from the begin of the step. Spans of one phase that are
nearly side by side become one, so that the file stays small; work that is shorter than half a pixel is
drawn half a pixel wide. Needs the standard library only.
"""

import argparse
import json
import sys
from html import escape
from pathlib import Path

LANES = ("compute", "weights_in", "activations_in", "out", "comm", "host", "save")
RARE = ("save",)  # drawn only where they have work
# Colours and greys that can be read on white and on black.
PHASES = {"forward": "#3d85c6", "head": "#9467bd", "backward": "#e08a2c", "offload": "#35a06a",
          "update": "#d1495b", "evaluate": "#17a2b8"}
MEANING = {"forward": "forward", "head": "head: loss and its backward", "backward": "backward",
           "offload": "gradients leave", "update": "norms and updates", "evaluate": "validation"}
OTHER = "#8a939c"
GREY = "#7b858f"

WIDTH, LEFT, RIGHT, TOP = 1120, 118, 62, 46
LANE_HEIGHT, BAR = 34, 22
MOST_BYTES = 150_000
LEAST_PIXELS = 0.5  # of a span
GAP_PIXELS = 0.4    # that is bridged, at first
CUT_PIXELS = 1      # between wide bars


class Span:
    def __init__(self, event):
        args = event.get("args", {})
        self.begin = event["ts"]
        self.end = event["ts"] + event["dur"]
        self.phase = args.get("phase", "")
        self.pass_ = args.get("pass", -1)
        self.unit = args.get("unit", -1)


def read_lanes(path):
    """Lane name -> spans by time."""
    events = json.loads(Path(path).read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events
             if e["ph"] == "M" and e["name"] == "thread_name"}
    lanes = {name: [] for name in LANES}
    for event in events:
        if event["ph"] == "X":
            lanes[names[event["tid"]]].append(Span(event))
    for spans in lanes.values():
        spans.sort(key=lambda s: s.begin)
    return lanes


def step_windows(compute):
    """(begin, end) of each step by its work on the compute lane: one begins where forward of pass 0 comes
    after something else. Copies within the device have no unit and do not count."""
    work = [s for s in compute if s.phase in ("forward", "head", "backward") and s.unit >= 0]
    windows = []
    previous = None
    for span in work:
        if span.phase == "forward" and span.pass_ == 0 and previous != ("forward", 0):
            windows.append([span.begin, span.end])
        if windows:
            windows[-1][1] = max(windows[-1][1], span.end)
        previous = (span.phase, span.pass_)
    # What a step's first work waits for belongs to the step.
    for earlier, later in zip(windows, windows[1:]):
        later[0] = earlier[1]
    return windows


def merged(spans, window, scale, gap_pixels):
    """(phase, x, width) of neighbouring spans of one phase and unit, in pixels from the window's begin.
    A wide bar ends a little early, so that the next unit's can be told from it."""
    bars = []
    for span in spans:
        begin, end = max(span.begin, window[0]), min(span.end, window[1])
        if end <= begin:
            continue
        x = (begin - window[0]) * scale
        right = max((end - window[0]) * scale, x + LEAST_PIXELS)
        of = (span.phase, span.unit)
        if bars and bars[-1][0] == of and x - bars[-1][2] < gap_pixels:
            bars[-1][2] = max(bars[-1][2], right)
        else:
            bars.append([of, x, right])
    return [(phase, x, right - x - (CUT_PIXELS if right - x > 5 * CUT_PIXELS else 0))
            for (phase, _), x, right in bars]


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def bars_of(spans, window, scale, y, gap_pixels):
    """One path for each phase: a thick stroke takes fewer bytes than rectangles."""
    paths = {}
    for phase, x, width in merged(spans, window, scale, gap_pixels):
        paths.setdefault(phase, []).append(f"M{number(LEFT + x)} {y}h{number(width)}")
    return [f'<path stroke="{PHASES.get(phase, OTHER)}" d="{"".join(parts)}"/>'
            for phase, parts in paths.items()]


def stretches(spans, window, key):
    """(key, begin, end) of consecutive work of the compute lane that has the same key."""
    found = []
    for span in spans:
        if span.unit < 0 or span.end <= window[0] or span.begin >= window[1]:
            continue
        begin, end = max(span.begin, window[0]), min(span.end, window[1])
        if found and found[-1][0] == key(span):
            found[-1][2] = end
        else:
            found.append([key(span), begin, end])
    return found


def widest_bars(compute, window, scale):
    """(x, width, unit) of the widest bar of each visit of a unit: where its number is written."""
    for (phase, pass_, unit), begin, end in stretches(compute, window, lambda s: (s.phase, s.pass_, s.unit)):
        spans = [s for s in compute if (s.phase, s.pass_, s.unit) == (phase, pass_, unit)
                 and s.begin < end and s.end > begin]
        _, x, width = max(merged(spans, window, scale, GAP_PIXELS), key=lambda bar: bar[2])
        yield x, width, unit


def heading(compute, window, scale, passes):
    """Above the lanes: phases with their passes, and the units that compute."""
    parts = []
    for (phase, pass_), begin, end in stretches(compute, window, lambda s: (s.phase, s.pass_)):
        x, right = LEFT + (begin - window[0]) * scale, LEFT + (end - window[0]) * scale
        text = f"{phase}, pass {pass_}" if passes > 1 and pass_ >= 0 else phase
        parts.append(f'<path class="thin" d="M{number(x)} {TOP - 8}v-5H{number(right)}v5"/>')
        if right - x > 6.2 * len(text):
            parts.append(f'<text class="mid" x="{number((x + right) / 2)}" y="{TOP - 19}">{text}</text>')
    digits = len(str(max(span.unit for span in compute)))
    for x, width, unit in widest_bars(compute, window, scale):
        if width > 7 * digits:
            y = TOP + LANE_HEIGHT / 2 + 4
            parts.append(f'<text class="unit" x="{number(LEFT + x + width / 2)}" y="{y:g}">{unit}</text>')
    return parts


def axis(window, scale, y):
    span_ms = (window[1] - window[0]) / 1000
    step = next(m * 10.0**e for e in range(-4, 9) for m in (1, 2, 5) if span_ms / (m * 10.0**e) <= 11)
    unit, factor = ("s", 1000) if span_ms >= 2000 else ("ms", 1)
    parts = [f'<path class="thin" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>']
    at = 0.0
    while at <= span_ms * (1 + 1e-9):
        x = number(LEFT + at * 1000 * scale)
        parts.append(f'<path class="thin" d="M{x} {y}v4"/>')
        parts.append(f'<text class="mid" x="{x}" y="{y + 17}">{at / factor:g}</text>')
        at += step
    parts.append(f'<text x="{WIDTH - RIGHT + 28}" y="{y + 17}">{unit}</text>')
    return parts


def busy_share(spans, window):
    """Of the window; work of one lane does not overlap."""
    inside = sum(max(0, min(s.end, window[1]) - max(s.begin, window[0])) for s in spans)
    return inside / (window[1] - window[0])


def legend(phases, y):
    parts, x = [], LEFT
    for phase in [*PHASES, ""]:
        if phase in phases:
            text = MEANING.get(phase, "other")
            parts.append(f'<path class="bar" stroke="{PHASES.get(phase, OTHER)}" d="M{x} {y - 4}h14"/>')
            parts.append(f'<text x="{x + 20}" y="{y}">{text}</text>')
            x += 44 + round(6.3 * len(text))
    return parts


def draw(lanes, window, title, gap_pixels):
    scale = (WIDTH - LEFT - RIGHT) / (window[1] - window[0])
    shown = [name for name in LANES if name not in RARE
             or any(s.end > window[0] and s.begin < window[1] for s in lanes[name])]
    bottom = TOP + LANE_HEIGHT * len(shown)
    passes = 1 + max((s.pass_ for s in lanes["compute"]), default=0)
    height = bottom + 58
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
             f"<title>{escape(title)}</title>",
             f"<style>text{{font:12px sans-serif;fill:{GREY}}}.lane{{font-weight:bold;text-anchor:end}}"
             f".mid{{text-anchor:middle}}.unit{{font-size:11px;text-anchor:middle;fill:#fff}}"
             f".thin{{stroke:{GREY};stroke-width:.8;fill:none}}.bars{{stroke-width:{BAR};fill:none}}"
             f".bar{{stroke-width:12}}.row{{fill:{GREY};fill-opacity:.1}}</style>"]
    phases = set()
    for i, name in enumerate(shown):
        y = TOP + LANE_HEIGHT * i + LANE_HEIGHT / 2
        spans = lanes[name]
        parts.append(f'<rect class="row" x="{LEFT}" y="{y - BAR / 2:g}" '
                     f'width="{WIDTH - LEFT - RIGHT}" height="{BAR}"/>')
        parts.append(f'<text class="lane" x="{LEFT - 10}" y="{y + 4:g}">{name}</text>')
        share = f"{100 * busy_share(spans, window):.0f} %"
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{y + 4:g}">{share}</text>')
        parts += ['<g class="bars">', *bars_of(spans, window, scale, f"{y:g}", gap_pixels), "</g>"]
        phases.update(s.phase if s.phase in PHASES else "" for s in spans
                      if s.end > window[0] and s.begin < window[1])
    parts += heading(lanes["compute"], window, scale, passes)
    parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{TOP - 19}">busy</text>')
    parts += axis(window, scale, bottom + 4)
    parts += legend(phases, bottom + 46)
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--step", type=int, choices=(1, 2), default=2)
    parser.add_argument("--from", dest="begin_ms", type=float, default=None)
    parser.add_argument("--to", dest="end_ms", type=float, default=None)
    parser.add_argument("--title", default="the lanes over the time of one step")
    arguments = parser.parse_args()

    lanes = read_lanes(arguments.trace)
    windows = step_windows(lanes["compute"])
    if len(windows) < arguments.step:
        sys.exit(f"{arguments.trace}: has {len(windows)} steps, not {arguments.step}")
    begin, end = windows[arguments.step - 1]
    window = (begin + 1000 * (arguments.begin_ms or 0),
              end if arguments.end_ms is None else min(end, begin + 1000 * arguments.end_ms))
    if not window[0] < window[1]:
        sys.exit(f"--from and --to leave nothing of a step of {(end - begin) / 1000:.3f} ms")

    gap_pixels = GAP_PIXELS
    text = draw(lanes, window, arguments.title, gap_pixels)
    while len(text) > MOST_BYTES and gap_pixels < 10:
        gap_pixels *= 1.5
        text = draw(lanes, window, arguments.title, gap_pixels)
    Path(arguments.out).write_text(text)
    print(f"{arguments.out}: {len(text)} bytes, {(window[1] - window[0]) / 1000:.1f} ms")


if __name__ == "__main__":
    main()
