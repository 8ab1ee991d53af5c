#!/usr/bin/env python3
"""Draws the losses of runs as an SVG: above the curves of all runs, below how far the training loss of
each group's runs is from that of the first group's, one by one.

  scripts/plot_losses.py OUT.svg LABEL=METRICS.jsonl[,METRICS.jsonl...] [LABEL=...]

Groups hold equally many runs, which belong together by their place (the same seed, say, and so the same
data). A training loss is drawn as the mean of WINDOW steps. Needs the standard library only.
"""

import json
import sys
from pathlib import Path

WINDOW = 20  # steps
COLOURS = ("#1f6fb4", "#d1495b", "#7a8b99", "#3b8f5a")
WIDTH, LEFT, RIGHT = 720, 62, 22
PANELS = ((30, 250), (334, 140))  # top and height


class Run:
    """The losses of one metrics.jsonl."""

    def __init__(self, path):
        events = [json.loads(line) for line in Path(path).read_text().splitlines()]
        steps = [(e["step"], e["loss"]) for e in events if e["event"] == "step"]
        self.training = []
        for first in range(0, len(steps), WINDOW):
            window = steps[first:first + WINDOW]
            self.training.append((window[-1][0], sum(loss for _, loss in window) / len(window)))
        self.validation = [(e["step"], e["val_loss"]) for e in events if e["event"] == "eval"]


def ticks(low, high):
    """Five or so round numbers from low to high."""
    span = high - low
    step = next(m * 10.0**e for e in range(-6, 9) for m in (1, 2, 5) if span / (m * 10.0**e) <= 6)
    first = -(-low // step)
    return [step * (first + i) for i in range(int((high - first * step) / step + 1e-9) + 1)]


class Panel:
    """A rectangle of the figure with axes of its own."""

    def __init__(self, place, xs, ys, title):
        self.top, self.height = place
        self.xs = (0, max(xs))
        margin = 0.05 * (max(ys) - min(ys))
        self.ys = (min(ys) - margin, max(ys) + margin)
        bottom = self.top + self.height
        self.parts = [f'<text x="{LEFT}" y="{self.top - 8}" class="title">{title}</text>']
        for y in ticks(*self.ys):
            at = self.y(y)
            self.parts.append(f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" class="grid"/>')
            self.parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" class="end">{y:g}</text>')
        for x in ticks(*self.xs):
            self.parts.append(f'<text x="{self.x(x)}" y="{bottom + 15}" class="mid">{x:g}</text>')
        self.parts.append(f'<path d="M{LEFT} {self.top}V{bottom}H{WIDTH - RIGHT}" class="axis"/>')

    def x(self, value):
        return round(LEFT + (WIDTH - RIGHT - LEFT) * value / self.xs[1], 1)

    def y(self, value):
        low, high = self.ys
        return round(self.top + self.height * (high - value) / (high - low), 1)

    def line(self, points, colour):
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" stroke="{colour}" class="line"/>')

    def dots(self, points, colour):
        for x, y in points:
            self.parts.append(f'<circle cx="{self.x(x)}" cy="{self.y(y)}" r="2.6" fill="{colour}"/>')


def differences(run, reference):
    """Training loss of a run minus that of another, window by window."""
    others = dict(reference.training)
    return [(step, loss - others[step]) for step, loss in run.training if step in others]


def draw(groups):
    """The figure as text; groups: [(label, [Run])], the first is what others are compared with."""
    runs = [run for _, members in groups for run in members]
    last = [max(step for step, _ in run.training) for run in runs]
    losses = [loss for run in runs for _, loss in run.training + run.validation]
    curves = Panel(PANELS[0], last, losses,
                   f"training loss, mean of {WINDOW} steps, and validation loss (dots); nats per token")
    reference_label, reference = groups[0]
    apart = [[differences(run, other) for run, other in zip(members, reference)]
             for _, members in groups[1:]]
    values = [value for group in apart for run in group for _, value in run] + [0.0]
    below = Panel(PANELS[1], last, values,
                  f"training loss minus that of {reference_label}, pair by pair; nats per token")
    legend = []
    for i, (label, members) in enumerate(groups):
        colour = COLOURS[i % len(COLOURS)]
        for run in members:
            curves.line(run.training, colour)
            curves.dots(run.validation, colour)
        if i > 0:
            for points in apart[i - 1]:
                below.line(points, colour)
        y = PANELS[0][0] + 16 + 18 * i
        legend.append(f'<path d="M430 {y - 4}h24" stroke="{colour}" class="line"/>'
                      f'<text x="460" y="{y}">{label}</text>')
    below.line([(0, 0), (max(last), 0)], COLOURS[0])
    height = PANELS[1][0] + PANELS[1][1] + 44
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        "<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.end{text-anchor:end}"
        ".mid{text-anchor:middle}.grid{stroke:#ddd}.axis{stroke:#333;fill:none}"
        ".line{fill:none;stroke-width:1.4;stroke-opacity:.8}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *curves.parts, *below.parts, *legend,
        f'<text x="{(WIDTH + LEFT) / 2}" y="{height - 10}" class="mid">step</text>', "</svg>", ""])


def main(arguments):
    if len(arguments) < 2 or not all("=" in group for group in arguments[1:]):
        sys.exit(__doc__)
    groups = []
    for argument in arguments[1:]:
        label, paths = argument.split("=", 1)
        groups.append((label, [Run(path) for path in paths.split(",")]))
    if len({len(members) for _, members in groups}) > 1:
        sys.exit("plot_losses.py: groups must hold equally many runs")
    Path(arguments[0]).write_text(draw(groups))


if __name__ == "__main__":
    main(sys.argv[1:])
