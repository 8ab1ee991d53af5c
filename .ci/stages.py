#!/usr/bin/env python3
"""Compares the times of CI's stages with the budgets in .ci/budget.json, which are for two idle cores.

  .ci/stages.py report TIMES OUTPUT [--test-seconds FILE]
                             reads lines "SECONDS<tab>PROCESSOR<tab>STAGE<tab>COMPILATIONS<tab>NEW", where all
                             processors were at work for PROCESSOR seconds and ccache lacked NEW of the compilations
                             (a kernel counts as several), writes them as JSON, prints a table and what is over its
                             budget
  .ci/stages.py --self-test  checks that what is over is found

--test-seconds names a file with the user and system seconds of the default tests. A stage has two budgets: "warm" where
ccache had nearly everything, "cold" where not. Machines differ, and may be busy: what is over its budget is reported,
in capitals where it took twice as long, and fails nothing. The exit code is 1 only if the whole took longer than the
hard limit; it is told from "warn" seconds on.
"""

import argparse
import json
import sys
from pathlib import Path

BUDGET = Path(__file__).resolve().parent / "budget.json"
WARM = 0.1  # at most this share compiled anew


def is_warm(compiled, new):
    return new <= WARM * compiled


def over_budget(what, seconds, allowed):
    """What is said of it, or an empty list."""
    if seconds <= allowed:
        return []
    return [f"{'TWICE ITS BUDGET' if seconds >= 2 * allowed else 'over budget'}: {what}: {seconds:.0f} s of {allowed}"]


def summary(times, budget, test_seconds):
    """What is written: the stages in order, what is over its budget, and whether that is a failure. `times` has the
    name, seconds, processor seconds, compilations and new ones of each stage."""
    stages, over = [], []
    for name, seconds, processor, compiled, new in times:
        # The names of README's stages end with a command.
        budgets = next((b for n, b in budget["stages"].items() if name.startswith(n)), None)
        kind = "warm" if is_warm(compiled, new) else "cold"
        allowed = budgets and budgets.get(kind, budgets["warm"])
        stages.append({"stage": name, "seconds": seconds, "processor_seconds": processor, "budget": allowed,
                       "kind": kind, "compiled": compiled, "new": new})
        over += [f"no budget in .ci/budget.json: {name}"] if allowed is None else over_budget(name, seconds, allowed)
    whole = sum(t[1] for t in times)
    kind = "warm" if is_warm(sum(t[3] for t in times), sum(t[4] for t in times)) else "cold"
    over += over_budget(f"the whole run ({kind})", whole, budget["whole"][kind])
    if test_seconds is not None:
        over += over_budget("processor time of the default tests", test_seconds, budget["test_processor_seconds"])
    if whole > budget["warn"]:
        over.append(f"WARNING: the whole run took {whole / 60:.0f} minutes; {budget['limit'] // 60} are the limit")
    return {"whole_seconds": whole, "processor_seconds": sum(t[2] for t in times), "kind": kind,
            "whole_budget": budget["whole"][kind],
            "test_processor_seconds": test_seconds, "failed": whole > budget["limit"], "over": over, "stages": stages}


def report(arguments):
    times = []
    for line in Path(arguments.times).read_text().splitlines():
        seconds, processor, name, compiled, new = line.split("\t")
        times.append((name, int(seconds), int(processor), int(compiled), int(new)))
    test_file = arguments.test_seconds and Path(arguments.test_seconds)
    test_seconds = None
    if test_file and test_file.is_file():
        test_seconds = round(sum(float(s) for s in test_file.read_text().split()), 1)
    result = summary(times, json.loads(BUDGET.read_text()), test_seconds)
    Path(arguments.output).write_text(json.dumps(result, indent=2) + "\n")
    for s in result["stages"]:
        print(f"{s['seconds']:6d} s of {s['budget'] or 0:4d}, processors {s['processor_seconds']:5d} s  {s['stage']}" +
              (f" (cold: {s['new']} of {s['compiled']} compiled)" if s["kind"] == "cold" else ""))
    print(f"{result['whole_seconds']:6d} s of {result['whole_budget']:4d}, "
          f"processors {result['processor_seconds']:5d} s  in all, {result['kind']}")
    if test_seconds is not None:
        print(f"the default tests took {test_seconds:.0f} s of processor time")
    for line in result["over"]:
        print(line)
    print(f"ccache lacked {sum(t[4] for t in times)} of {sum(t[3] for t in times)} compilations")
    return 1 if result["failed"] else 0


def self_test():
    budget = {"limit": 500, "warn": 250, "whole": {"warm": 100, "cold": 200}, "test_processor_seconds": 60,
              "stages": {"build": {"warm": 30, "cold": 90}, "README": {"warm": 50}}}
    over, twice, none, warning = "over budget", "TWICE", "no budget", "WARNING"
    cases = [  # times, seconds of tests, what is said, in order, and whether it fails
        ([("build", 30, 0, 9, 0), ("README: a", 50, 0, 9, 0), ("README: b", 20, 0, 9, 0)], 60, [], False),
        ([("build", 31, 0, 9, 0)], None, [over], False),
        ([("build", 60, 0, 9, 0)], None, [twice], False),
        ([("build", 90, 0, 9, 9)], None, [], False),
        ([("build", 180, 0, 9, 9)], None, [twice], False),
        ([("README: a", 51, 0, 0, 0)], None, [over], False),
        ([("README: a", 51, 0, 9, 9)], None, [over], False),
        ([("new", 1, 0, 0, 0)], None, [none], False),
        ([("build", 30, 0, 9, 0), ("README: a", 50, 0, 9, 0), ("README: b", 50, 0, 9, 0)], None, [over], False),
        ([("build", 251, 0, 9, 9)], None, [twice, over, warning], False),
        ([("build", 501, 0, 9, 9)], None, [twice, twice, warning], True),
        ([], 61, [over], False),
        ([], 121, [twice], False),
    ]
    wrong = []
    for times, test_seconds, said, failed in cases:
        result = summary(times, budget, test_seconds)
        if result["failed"] != failed or len(result["over"]) != len(said) or not all(
                line.startswith(begin) for line, begin in zip(result["over"], said)):
            wrong.append(f"{times}, {test_seconds}: wanted {said}, found {result}")
    print("\n".join(wrong) if wrong else f"stages: self-test passed, {len(cases)} cases")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["report"])
    parser.add_argument("times")
    parser.add_argument("output")
    parser.add_argument("--test-seconds")
    return report(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
