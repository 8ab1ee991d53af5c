#!/usr/bin/env python3
"""Compares the times of CI's stages with the budget in .ci/budget.json, which is for two cores and a warm cache.

  .ci/stages.py report TIMES OUTPUT [--test-seconds FILE]
                             reads lines "SECONDS<tab>STAGE<tab>COMPILATIONS<tab>NEW", where ccache lacked NEW of the
                             compilations (a kernel counts as several), writes them as JSON, prints a table and what
                             is over its budget
  .ci/stages.py --self-test  checks that what is over is found

--test-seconds names a file with the user and system seconds of the default tests. Machines differ, so what is over is
reported, and exit code 1 only says that the whole run or the tests took `fail_factor` times their budget. A stage that
compiled much anew says nothing by its time: the whole is then judged without it and without its budget. Where that is
so of the whole run, only the tests can fail.
"""

import argparse
import json
import sys
from pathlib import Path

BUDGET = Path(__file__).resolve().parent / "budget.json"
WARM = 0.1  # at most this share compiled anew


def is_warm(compiled, new):
    return new <= WARM * compiled


def summary(times, budget, test_seconds):
    """What is written: the stages in order, what is over its budget, and whether that is a failure. `times` has the
    name, seconds, compilations and new ones of each stage."""
    stages, over, failed = [], [], False
    judged_seconds, judged_budget = 0, budget["whole"]
    for name, seconds, compiled, new in times:
        # The names of README's stages end with a command.
        allowed = next((s for n, s in budget["stages"].items() if name.startswith(n)), None)
        stages.append({"stage": name, "seconds": seconds, "budget": allowed, "compiled": compiled, "new": new})
        warm = is_warm(compiled, new)
        if allowed is None:
            over.append(f"{name}: has no budget in .ci/budget.json")
        elif seconds > allowed:
            over.append(f"{name}: {seconds} s, its budget is {allowed} s" +
                        ("" if warm else f"; ccache lacked {new} of {compiled} compilations"))
        if warm:
            judged_seconds += seconds
        else:
            judged_budget -= allowed or 0
    whole = sum(t[1] for t in times)
    all_warm = is_warm(sum(t[2] for t in times), sum(t[3] for t in times))
    if whole > budget["whole"]:
        over.append(f"the whole run: {whole} s, its budget is {budget['whole']} s")
    if all_warm and judged_seconds > budget["fail_factor"] * judged_budget:
        over.append(f"without stages that compiled anew: {judged_seconds} s, their budget is {judged_budget} s")
        failed = True
    if test_seconds is not None and test_seconds > budget["test_processor_seconds"]:
        over.append(f"the default tests: {test_seconds:.0f} s of processor time, their budget is "
                    f"{budget['test_processor_seconds']} s")
        failed = failed or test_seconds > budget["fail_factor"] * budget["test_processor_seconds"]
    return {"whole_seconds": whole, "whole_budget": budget["whole"], "judged_seconds": judged_seconds,
            "judged_budget": judged_budget, "test_processor_seconds": test_seconds, "failed": failed, "over": over,
            "stages": stages}


def report(arguments):
    times = []
    for line in Path(arguments.times).read_text().splitlines():
        seconds, name, compiled, new = line.split("\t")
        times.append((name, int(seconds), int(compiled), int(new)))
    test_file = arguments.test_seconds and Path(arguments.test_seconds)
    test_seconds = None
    if test_file and test_file.is_file():
        test_seconds = round(sum(float(s) for s in test_file.read_text().split()), 1)
    result = summary(times, json.loads(BUDGET.read_text()), test_seconds)
    Path(arguments.output).write_text(json.dumps(result, indent=2) + "\n")
    for s in result["stages"]:
        print(f"{s['seconds']:6d} s of {s['budget'] or 0:4d}  {s['stage']}")
    print(f"{result['whole_seconds']:6d} s of {result['whole_budget']:4d}  in all")
    if test_seconds is not None:
        print(f"the default tests took {test_seconds:.0f} s of processor time")
    for line in result["over"]:
        print(f"OVER BUDGET: {line}")
    print(f"ccache lacked {sum(t[3] for t in times)} of {sum(t[2] for t in times)} compilations")
    return 1 if result["failed"] else 0


def self_test():
    budget = {"whole": 100, "fail_factor": 2, "test_processor_seconds": 60,
              "stages": {"build": 30, "README": 50}}
    cases = [  # times, seconds of tests, (failed, how many are over)
        ([("build", 30, 9, 0), ("README: a", 50, 9, 0), ("README: b", 20, 9, 0)], 60, (False, 0)),
        ([("build", 31, 9, 0)], None, (False, 1)),
        ([("README: a", 51, 0, 0)], None, (False, 1)),
        ([("new", 1, 0, 0)], None, (False, 1)),
        ([("build", 30, 9, 0), ("README: a", 50, 9, 0), ("README: b", 50, 9, 0)], None, (False, 1)),
        ([("build", 201, 10, 1)], None, (True, 3)),
        ([("build", 200, 10, 1)], None, (False, 2)),
        # Much of the whole is new.
        ([("build", 201, 10, 5)], None, (False, 2)),
        ([("build", 201, 10, 5), ("README: a", 201, 10, 0)], None, (False, 3)),
        # A stage is, little of the whole.
        ([("build", 201, 10, 5), ("README: a", 140, 90, 0)], None, (False, 3)),
        ([("build", 201, 10, 5), ("README: a", 141, 90, 0)], None, (True, 4)),
        ([], 61, (False, 1)),
        ([("build", 10, 10, 10)], 121, (True, 1)),
    ]
    wrong = []
    for times, test_seconds, wanted in cases:
        result = summary(times, budget, test_seconds)
        if (result["failed"], len(result["over"])) != wanted:
            wrong.append(f"{times}, {test_seconds}: wanted {wanted}, found {result}")
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
