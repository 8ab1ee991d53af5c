#!/usr/bin/env python3
"""Opens the report of a run in a headless browser: it must draw its charts, log nothing and ask for nothing.

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
               "tokens": 256, "step_s": 0.5, "tokens_per_s": 512.0, "mfu": 0.5, "applied": step != 70}
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


def looked_at(strata, browser, scratch, runs, drawn):
    """What is wrong with the page of these runs, of which so much must be drawn."""
    page = scratch / "report.html"
    subprocess.run([strata, "report", *runs, "--output", page], check=True)
    opened = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                             f"--user-data-dir={scratch}/profile", "--virtual-time-budget=3000", "--window-size=500,800",
                             "--dump-dom", f"file://{page}"],
                            capture_output=True, text=True, timeout=120)
    # What a page asks for against its policy is refused, and the refusal is logged.
    wrong = [line for line in opened.stderr.splitlines() if "CONSOLE" in line]
    text = opened.stdout
    body = text[text.index("<main"):text.index("</main>")]
    wrong += [f"not drawn: {what}" for what, count in drawn if body.count(what) < count]
    return wrong + [f"markup of a run: {tag}" for tag in ("<img", "<b>bold") if tag in body]


def main():
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not browser:
        print("skipped: there is no Chromium")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        for name in ("one", "two"):
            write_run(scratch / name)
        write_odd_run(scratch / "odd")
        wrong = looked_at(sys.argv[1], browser, scratch, (scratch / "one", scratch / "two"),
                          (("<figure", 6), ('class="line', 12), ("<canvas", 2), ('sample"', 2)))
        wrong += looked_at(sys.argv[1], browser, scratch, (scratch / "odd",), (("<figure", 5), ('class="line', 5)))
    print("\n".join(wrong) if wrong else "the page draws, logs nothing and asks for nothing")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
