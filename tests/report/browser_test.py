#!/usr/bin/env python3
"""Opens the report of a run in a headless browser, in light, in dark and as wide as a phone: it must draw its charts,
log nothing and ask for nothing. A page of 100,000 steps must draw few points, which is what makes it open fast.

  tests/report/browser_test.py STRATA    exit code 77: skipped, because there is no Chromium here

The run is written by hand, so that it has everything that a page can show, and texts that would be markup.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOSTILE = "</script><img src=x onerror=console.error(1)><b>bold</b>"
LANES = ("compute", "weights_in", "out", "host")


def metrics(steps):
    yield {"event": "start", "version": "0.1.0", "commit": HOSTILE, "device": HOSTILE, "parameters": 1000, "ranks": 2,
           "device_planned_bytes": 1 << 30, "host_planned_bytes": 1 << 31}
    for step in range(1, steps + 1):
        yield {"event": "step", "step": step, "loss": None if step == 70 else 5 / step, "grad_norm": 1 / step, "lr": 1e-3,
               "tokens": 256, "step_s": 0.5, "tokens_per_s": 512.0, "targets_per_s": 384.0, "mfu": 0.5,
               "attended": 0.1, "mfu_attended": 0.25, "applied": step != 70}
        if step % 50 == 0:
            yield {"event": "eval", "step": step, "val_loss": 6 / step}
            yield {"event": "checkpoint", "step": step, "weights_alone": False, "saved": step > 50, "seconds": 1.5,
                   "bytes": 1 << 20, "failure": None if step > 50 else HOSTILE}
    yield {"event": "trace", "step": 10, **{f"{lane}_busy_s": 0.2 for lane in LANES},
           **{f"{lane}_exposed_s": 0.1 for lane in LANES}, "updates_busy_s": 0.1, "updates_exposed_s": 0.0}
    yield {"event": "rollback", "step": 90, "what": HOSTILE, "samples": 5}
    yield {"event": "end", "reason": "done", "steps": steps, "lost_lines": 1, "device_measured_bytes": 1 << 29,
           "host_peak_bytes": 1 << 31}


def write_run(folder):
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics(300)))
    (folder / "config.json").write_text(json.dumps({"run": {"output": HOSTILE, "name": folder.name}}))
    (folder / "samples.jsonl").write_text(json.dumps({"step": 100, "prompt": HOSTILE, "text": HOSTILE}) + "\n")
    events = [{"ph": "M", "name": "thread_name", "tid": 0, "args": {"name": "compute"}}]
    events += [{"ph": "X", "name": HOSTILE, "tid": 0, "ts": 10 * i, "dur": 9, "args": {"phase": "forward", "unit": i // 8}}
               for i in range(40)]
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}))


def write_odd_run(folder):
    """Numbers that no run has: once they took the loops over ticks no further, and so no page was drawn."""
    folder.mkdir()
    last = 2**53
    lines = [{"event": "step", "step": last - 2 + i, "loss": [-1e308, 1e308, 1][i], "grad_norm": [1e-20, 1e-320, 1][i],
              "lr": 5e-324, "tokens_per_s": 1e-200} for i in range(3)]
    lines += [{"event": "eval", "step": last - 2 + i, "val_loss": 1e-200 * i} for i in range(3)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.json").write_text("{}")


def write_long_run(folder, steps):
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(1, steps + 1):
            line = {"event": "step", "step": step, "loss": 2 + step**-0.3 + step * 7 % 11 / 100, "lr": 1e-3,
                    "grad_norm": 1 + step * 5 % 13 / 100, "tokens": 65536, "tokens_per_s": 13e3}
            file.write(json.dumps(line) + "\n")


class Browser:
    LOOKS = {"light": ("--window-size=1100,800",), "phone": ("--window-size=360,800",),
             "dark": ("--window-size=1100,800", "--blink-settings=preferredColorScheme=0")}

    def __init__(self, program, scratch):
        self.command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                        f"--user-data-dir={scratch}/profile", "--virtual-time-budget=3000", "--dump-dom"]

    def open(self, page, look="light"):
        """What the page has become, and what the browser says of it: refused requests are logged, as errors are."""
        opened = subprocess.run([*self.command, *self.LOOKS[look], f"file://{page}"], capture_output=True, text=True)
        return opened.stdout, [line for line in opened.stderr.splitlines() if "CONSOLE" in line]


def report(strata, page, *runs):
    subprocess.run([strata, "report", *runs, "--output", page], check=True, stderr=subprocess.DEVNULL)


def looked_at(browser, page, drawn):
    """What is wrong with a page, of which so much must be drawn."""
    for look in Browser.LOOKS:
        text, wrong = browser.open(page, look)
        body = text[text.index("<main"):text.index("</main>")]
        wrong += [f"not drawn: {what}" for what, count in drawn if body.count(what) < count]
        wrong += [f"markup of a run: {tag}" for tag in ("<img", "<b>bold") if tag in body]
        yield from (f"{look}: {what}" for what in wrong)


def check(strata, browser, scratch):
    """What is wrong with the pages of several runs."""
    page = scratch / "report.html"
    for name in ("one", "two"):
        write_run(scratch / name)
    report(strata, page, scratch / "one", scratch / "two")
    yield from looked_at(browser, page, (("<figure", 6), ('class="line', 12), ("<canvas", 2), ('sample"', 2),
                                         ("Targets per second", 1), (">384<", 2), (">25.0 %<", 2)))
    alone = scratch / "alone.html"
    report(strata, alone, scratch / "one")
    yield from looked_at(browser, alone, (("Targets per second", 1), (">384<", 1),
                                          ("25.0 % without masked attention", 1)))
    # The same page with what it must not have: else nothing was looked at.
    for planted in ("<img src=http://127.0.0.1:1/x>", "<script>undefined_name()</script>"):
        spoilt = scratch / "spoilt.html"
        spoilt.write_text(page.read_text().replace("</main>", planted + "</main>"))
        if not browser.open(spoilt)[1]:
            yield f"nobody noticed {planted}"
    write_odd_run(scratch / "odd")
    report(strata, page, scratch / "odd")
    yield from looked_at(browser, page, (("<figure", 5), ('class="line', 5)))
    write_long_run(scratch / "long", 100_000)
    report(strata, page, scratch / "long")
    yield from looked_at(browser, page, (("<figure", 3), ('class="line', 3)))
    drawn = len(browser.open(page)[0])
    print(f"a page of 100,000 steps has become {drawn / 1e6:.1f} MB")
    if drawn > 3e6:
        yield "that is more than 3 MB"


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        program = shutil.which(name)
        # Ubuntu has one by this name that only says where to get another.
        if program and subprocess.run([program, "--version"], capture_output=True).returncode == 0:
            return program
    return None


def main():
    program = find_browser()
    if not program:
        print("skipped: there is no Chromium")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        wrong = list(check(sys.argv[1], Browser(program, scratch), Path(scratch)))
    print("\n".join(wrong) if wrong else "the pages draw, log nothing and ask for nothing")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
