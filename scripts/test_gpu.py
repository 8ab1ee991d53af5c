#!/usr/bin/env python3
"""Runs the tests that need a GPU, those that ctest labels "cuda", in several processes at a time.

  scripts/test_gpu.py                  builds what these tests need of the preset cuda-release, and runs them
    --build FOLDER                     runs those of this build folder instead, and builds nothing
    --workers N                        runs N processes at a time (6, or as many as cores and the GPUs' memory allow)
    --limit SECONDS                    a process that takes longer has failed (1200): only what hangs does
    --only TEXT                        runs the cases whose names contain TEXT
  scripts/test_gpu.py --self-test PROGRAM
                                       checks this script without a GPU, by the cases of PROGRAM, which is made from
                                       tests/support/planted_cases.cpp

The cases are those of the test programs that ctest runs with the tag [cuda]; a worker takes the next ones when it is
done with some, and sees one of the GPUs. A process runs several cases, since its context of the GPU takes longer than
most of them. It ends with the first that fails, and another process runs those that were to follow. Cases tagged [slow]
begin first, each in a process of its own. Cases tagged [alone] measure times or memory, or look at all GPUs: they run
afterwards, one at a time, and so do ctest's other tests with the label, which need several GPUs. The last line is like
ctest's. The exit code is 1 if a case failed, crashed or hung, or if none ran. A case that says "skipped: ..." counts as
neither passed nor failed.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASE_MIB = 6 * 1024  # of a GPU's memory for each case at work: more than a context and the largest case take
# More make it slower: the driver creates one context of a machine after the other. With 16 at a time on an H200 that
# took 40 s each, and failed for some.
MOST_WORKERS = 6
MOST_CASES = 8  # of a process
LIST_LIMIT_S = 600


@dataclass
class Case:
    program: str
    name: str
    command: list  # of ctest, or of the program before the cases' names
    environment: dict = field(default_factory=dict)
    folder: str = "."
    slow: bool = False
    alone: bool = False
    by_ctest: bool = False

    def __str__(self):
        return f"{self.program}: {self.name}"


@dataclass
class Result:
    case: Case
    outcome: str  # Passed, Skipped or Failed
    why: str  # it was skipped or failed
    output: str
    begin: float  # of its process, as the end
    end: float
    seconds: float  # that it took itself


def spec_of(name):
    """The test spec of Catch2 2 and 3 that selects one name. Between quotes only these characters mean something."""
    return '"' + re.sub(r'([\\",])', r"\\\1", name) + '"'


def list_names(command, spec, environment, folder):
    """The names of a program's cases that match a spec."""
    def said(*options):
        # Catch2 2 returns the number of names as its exit code, so that codes say nothing here.
        return subprocess.run([*command, *options], env={**os.environ, **environment}, cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIST_LIMIT_S).stdout
    version = re.search(r"^version: +(\d+)", said("--libidentify"), re.M)
    if not version:
        raise ValueError("is no program of Catch2, or does not start")
    listing = ["--list-test-names-only"] if version[1] == "2" else ["--list-tests", "--verbosity", "quiet"]
    names = said(*listing, "--order", "decl", spec).splitlines()
    return [n[1:-1] if n.startswith('"#') else n for n in names if n]  # only names that begin so are quoted


def cases_of(program, command, spec, environment=None, folder="."):
    """The cases of a program that match a spec."""
    environment = environment or {}
    names, alone, slow = (list_names(command, spec + tag, environment, folder) for tag in ("", "[alone]", "[slow]"))
    if not names:
        raise ValueError(f"has no case with the tag {spec}")
    if len({name.lower() for name in names}) != len(names):  # a spec would select both
        raise ValueError("has cases whose names differ in nothing but capitals")
    return [Case(program, n, command, environment, folder, n in slow, n in alone) for n in names]


def read_build(build):
    """The cases of all tests of a build folder with the label cuda, and results of programs that cannot list theirs."""
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1", "-L", "^cuda$"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    cases, broken = [], []
    for test in json.loads(listed)["tests"]:
        name, command = test["name"], test.get("command", [])
        of = {p["name"]: p["value"] for p in test.get("properties", [])}
        if not command or command[-1] != "[cuda]":
            again = ["ctest", "--test-dir", str(build), "--verbose", "--no-tests=error", "-R", f"^{re.escape(name)}$"]
            cases.append(Case("ctest", name, again, alone=True, by_ctest=True))
            continue
        environment = dict(line.split("=", 1) for line in of.get("ENVIRONMENT", []))
        program = name.removesuffix("_cuda")
        try:
            cases += cases_of(program, command[:-1], "[cuda]", environment, of.get("WORKING_DIRECTORY", str(build)))
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            broken.append(Result(Case(program, "the list of its cases", command), "Failed", str(error), "", 0, 0))
    return cases, broken


def judge_by_ctest(code, output):
    if code != 0:
        return "Failed", f"ctest ended with {code}"
    if "***Skipped" not in output:
        return "Passed", ""
    said = re.search(r"skipped: (.+)", output)
    return "Skipped", said[1] if said else "by ctest"


def read_cases(text):
    """The cases that a program of Catch2 has ended, from what its reporter for XML has written so far: elements that
    hold what happened in a case, and at last how it ended."""
    parser, ended = xml.XMLPullParser(["end"]), []
    with contextlib.suppress(xml.ParseError):  # where the program has ended early
        parser.feed(text)
    with contextlib.suppress(xml.ParseError):
        for _, element in parser.read_events():
            ended += [element] if element.tag == "TestCase" else []
    return ended


def said_in(element):
    """What Catch2 would have printed of a case: messages, and assertions that failed."""
    for part in element.iter():
        text, place = " ".join((part.text or "").split()), f"{part.get('filename')}:{part.get('line')}: "
        if part.tag == "Expression":
            yield f"{place}{part.get('type')}( {part.findtext('Original', '').strip()} )"
            yield f"  with {part.findtext('Expanded', '').strip()}"
        elif part.tag in ("Exception", "FatalErrorCondition", "Failure"):
            yield f"{place}{part.tag}: {text}"
        elif part.tag in ("Info", "Warning", "StdOut", "StdErr") and text:
            yield f"  {part.text.strip()}"


def judge(element, why_ended):
    """Returns the outcome of a case that has ended, and why; its process has ended as it says."""
    result = element.find("OverallResult")
    if result.get("success") != "true":
        return "Failed", why_ended if element.find(".//FatalErrorCondition") is not None else "a check failed"
    for warning in element.iter("Warning"):
        if (warning.text or "").strip().startswith("skipped: "):
            return "Skipped", " ".join(warning.text.split())[len("skipped: "):]
    if int(result.get("skips", 0)) > 0:  # by Catch2 3's SKIP
        return "Skipped", "by Catch2"
    return "Passed", ""


def code_is_known(code, outcomes):
    """Whether cases with these outcomes are why a process has ended so: Catch2 3 has a code for those that it skips."""
    return "Failed" in outcomes or (code == 4 and outcomes == {"Skipped"})


def queue_of(cases):
    """The cases that run beside others, in the order in which they begin."""
    return collections.deque(sorted((case for case in cases if not case.alone), key=lambda case: not case.slow))


def take_some(waiting, workers):
    """Takes the next cases for one process: fewer at the end, so that no worker is left without any."""
    first = waiting.popleft()
    some, most = [first], 1 if first.slow else min(MOST_CASES, len(waiting) // (2 * workers) + 1)
    while len(some) < most and waiting and waiting[0].program == first.program:
        some.append(waiting.popleft())
    return some


class Runner:
    """Runs cases, several at a time, and tells of each as it ends."""

    def __init__(self, limit, total, quiet=False):
        self.limit, self.total, self.quiet = limit, total, quiet
        self.results = []
        self.lock = threading.Lock()  # guards what follows, results and output
        self.groups = set()  # of processes that run
        self.stopped = False

    def take(self, result):
        with self.lock:
            self.results.append(result)
            if self.quiet:
                return
            why = f" ({result.why})" if result.why else ""
            print(f"{len(self.results):4d}/{self.total} {result.outcome:7} {result.seconds:7.2f} s  {result.case}{why}")
            if result.outcome == "Failed":
                print(result.output)
            sys.stdout.flush()

    def start(self, command, case, gpu, output):
        environment = {**os.environ, **case.environment}
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        with self.lock:
            if self.stopped:
                raise OSError("the others were stopped")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                       env=environment, cwd=case.folder, start_new_session=True)
            self.groups.add(process.pid)
        return process

    def wait(self, process):
        """Returns the exit code of a process, or nothing if it had to be killed, with what it had started."""
        try:
            code = process.wait(self.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        with self.lock:
            self.groups.discard(process.pid)
        return code

    def run(self, command, case, gpu):
        """Returns the exit code of a command, or nothing if it hung, and its output."""
        # A file, since what a case starts may hold a pipe open for longer than the case lives.
        with tempfile.TemporaryFile() as file:
            code = self.wait(self.start(command, case, gpu, file))
            file.seek(0)
            return code, file.read().decode(errors="replace")

    def why_ended(self, code):
        if code is None:
            return f"did not end within {self.limit:g} s"
        return f"ended by signal {-code}" if code < 0 else f"ended with {code}"

    def run_by_ctest(self, case):
        begin = time.monotonic()
        try:
            code, output = self.run(case.command, case, None)
            ended = code is not None and code >= 0
            outcome, why = judge_by_ctest(code, output) if ended else ("Failed", self.why_ended(code))
        except OSError as error:
            outcome, why, output = "Failed", f"does not start: {error}", ""
        end = time.monotonic()
        self.take(Result(case, outcome, why, output, begin, end, end - begin))

    def run_some(self, cases, gpu):
        """Runs cases of one program by one process, which ends after the first that fails, since an error of CUDA stays
        for those that follow. Returns the cases that it did not come to."""
        begin, names = time.monotonic(), [case.name for case in cases]
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [*cases[0].command, ",".join(spec_of(name) for name in names), "--reporter", "xml", "--out",
                       str(report), "--durations", "yes", "--order", "decl", "--abort"]
            try:
                code, output = self.run(command, cases[0], gpu)
                ended = read_cases(report.read_text(errors="replace") if report.exists() else "")
                why = self.why_ended(code)
            except OSError as error:
                code, output, ended, why = None, "", [], f"does not start: {error}"
        end = time.monotonic()
        outcomes = [judge(element, why) for element in ended]
        if sorted(element.get("name") for element in ended) != sorted(names[:len(ended)]):
            outcomes = [("Failed", "other cases ran than this process was to run")] * len(cases)
            ended = [xml.Element("TestCase")] * len(cases)
        elif len(ended) == len(cases) and code != 0 and not code_is_known(code, {outcome for outcome, _ in outcomes}):
            outcomes[-1] = "Failed", f"its process {why}"
        elif len(ended) < len(cases) and all(outcome != "Failed" for outcome, _ in outcomes):
            outcomes.append(("Failed", f"{why} before Catch2 said how this case did"))
            ended.append(xml.Element("TestCase"))
        for case, element, outcome in zip(cases, ended, outcomes):
            result = element.find("OverallResult")
            seconds = end - begin if result is None else float(result.get("durationInSeconds", 0))
            self.take(Result(case, *outcome, "\n".join([*said_in(element), output]), begin, end, seconds))
        return cases[len(ended):]

    def run_all(self, cases, gpus, workers):
        """Runs cases by workers, each of which sees one of the GPUs, and then one by one those that are to run alone,
        which see all."""
        waiting = queue_of(cases)

        def work(gpu):
            while not self.stopped:
                with self.lock:
                    if not waiting:
                        return
                    left = take_some(waiting, workers)
                while left and not self.stopped:
                    left = self.run_some(left, gpu)

        threads = [threading.Thread(target=work, args=(gpus[i % len(gpus)],)) for i in range(workers)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for case in cases:
                if case.by_ctest:
                    self.run_by_ctest(case)
                elif case.alone:
                    self.run_some([case], None)
        finally:
            with self.lock:
                self.stopped = True
                for group in self.groups:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(group, signal.SIGKILL)


def summary(results, total, seconds):
    """The closing lines, and the exit code; there should be results of `total` cases."""
    of = {outcome: [r for r in results if r.outcome == outcome] for outcome in ("Passed", "Skipped", "Failed")}
    ran = len(of["Passed"]) + len(of["Failed"])
    longest = sorted(results, key=lambda r: -r.seconds)[:5]
    lines = ["", "The longest:", *(f"    {r.seconds:7.2f} s  {r.case}" for r in longest)]
    if of["Skipped"]:
        lines += ["The following tests did not run:", *(f"    {r.case} (Skipped: {r.why})" for r in of["Skipped"])]
    if of["Failed"]:
        lines += ["The following tests FAILED:", *(f"    {r.case} (Failed: {r.why})" for r in of["Failed"])]
    if len(results) != total:
        lines.append(f"{total - len(results)} cases have no result")
    lines.append(f"Total time: {seconds:.1f} s, {len(of['Skipped'])} skipped")
    percent = 100 * len(of["Passed"]) // ran if ran else 0
    lines.append(f"{percent}% tests passed, {len(of['Failed'])} tests failed out of {ran}")
    return lines, 1 if of["Failed"] or ran == 0 or len(results) != total else 0


@dataclass
class Gpus:
    names: list  # as CUDA_VISIBLE_DEVICES takes them
    mib: int  # of the smallest one
    shared: bool  # several processes may use one at a time


def visible_gpus():
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, or nothing."""
    query = ["nvidia-smi", "--query-gpu=uuid,memory.total,compute_mode", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    rows = [line.split(", ") for line in said.splitlines() if line.startswith("GPU")]
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [row[0] for row in rows] if named is None else [n for n in named.split(",") if n]
    if not rows or not names:
        return None
    return Gpus(names, min(int(row[1]) if row[1].isdigit() else 0 for row in rows),
                all("Exclusive" not in row[2] for row in rows))


def workers_for(gpus, cores):
    each = max(1, gpus.mib // CASE_MIB) if gpus.shared else 1
    return max(1, min(cores, each * len(gpus.names), MOST_WORKERS))


def run_tests(options):
    gpus = visible_gpus()
    if gpus is None:
        print("test_gpu.py: no GPU is visible, so nothing would be tested", file=sys.stderr)
        return 1
    build = options.build
    if build is None:
        build = ROOT / "build/cuda-release"
        subprocess.run(["bash", "-ec", ". scripts/common.sh; build cuda-release cuda_tests"], cwd=ROOT, check=True)
    begin = time.monotonic()
    cases, results = read_build(build.resolve())
    cases = [case for case in cases if options.only in case.name]
    workers = options.workers or workers_for(gpus, len(os.sched_getaffinity(0)))
    print(f"{len(cases)} cases, {sum(case.alone for case in cases)} of them alone, the others {workers} at a time on "
          f"{len(gpus.names)} GPU(s)", flush=True)
    runner = Runner(options.limit, len(cases) + len(results))
    for result in results:
        runner.take(result)
    runner.run_all(cases, gpus.names, workers)
    lines, code = summary(runner.results, runner.total, time.monotonic() - begin)
    print("\n".join(lines))
    return code


# How the planted cases end whose names do not say that they pass.
PLANTED = {"fails": ("Failed", "a check failed"),
           "is skipped": ("Skipped", "there is nothing that this case could test on the machine where it runs"),
           "is aborted": ("Failed", "ended by signal 6"),
           "ends the program": ("Failed", "ended with 0 before Catch2 said")}


def self_test(program):
    wrong = []

    def expect(what, found, wanted):
        if found != wanted:
            wrong.append(f"{what}: wanted {wanted}, found {found}")

    def run(cases, limit=1200.0):
        runner = Runner(limit, len(cases), quiet=True)
        runner.run_all(cases, ["first", "second"], 3)
        return runner.results

    planted = cases_of("planted", [program], "[planted]")
    expect("names that a spec finds", [list_names([program], spec_of(c.name), {}, ".") for c in planted],
           [[c.name] for c in planted])
    expect("cases with a comma, quotes, a bracket, a backslash", [sum(sign in c.name for c in planted) > 0
                                                                 for sign in ',"[\\'], [True] * 4)
    results = run(planted)
    expect("cases that ran", sorted(r.case.name for r in results), sorted(c.name for c in planted))
    for r in results:
        outcome, why = PLANTED.get(r.case.name, ("Passed", ""))
        expect(r.case.name, (r.outcome, why in r.why), (outcome, True))
    alone = [r for r in results if r.case.alone]
    others = [r for r in results if not r.case.alone]
    expect("cases alone", len(alone), 2)
    expect("cases alone run after the others", min(r.begin for r in alone) >= max(r.end for r in others), True)
    expect("cases alone run one by one", alone[1].begin >= alone[0].end, True)
    expect("slow cases in the queue", [case.slow for case in queue_of(planted)][:2], [True, False])
    lines, code = summary(results, len(planted), 1.0)
    failed = [c for c in planted if PLANTED.get(c.name, ("", ""))[0] == "Failed"]
    expect("the summary", (lines[-1], code), (f"{100 * (len(planted) - 1 - len(failed)) // (len(planted) - 1)}% tests "
                                              f"passed, {len(failed)} tests failed out of {len(planted) - 1}", 1))
    expect("names in the summary", [f"{c}" in "\n".join(lines) for c in failed], [True] * len(failed))
    passed = [r for r in results if r.outcome == "Passed"]
    expect("all pass", summary(passed, len(passed), 1.0)[1], 0)
    expect("a case has no result", summary(passed, len(passed) + 1, 1.0)[1], 1)
    expect("none ran", summary([r for r in results if r.outcome == "Skipped"], 1, 1.0)[1], 1)

    hanging = run(cases_of("planted", [program], "[hangs]"), limit=0.5)
    expect("a case that hangs", [(r.outcome, "did not end within 0.5 s" in r.why) for r in hanging],
           [("Failed", True)])
    absent = run([Case("absent", "case", ["/nowhere/program"])])
    expect("a program that is not there", (absent[0].outcome, "does not start" in absent[0].why), ("Failed", True))
    for name, outcome in (("fails", "Failed"), ("is aborted", "Failed"), ("ends the program", "Failed"),
                          ("is skipped", "Skipped")):
        some = [case for case in planted if case.name in (name, "sees one GPU")]
        runner = Runner(1200, 2, quiet=True)
        left = runner.run_some(some, "first")
        expect(f"a case behind one that {name}", ([r.outcome for r in runner.results], len(left)),
               ([outcome], 1) if outcome == "Failed" else ([outcome, "Passed"], 0))
    others = run([Case("others", "c", ["bash", "-c", 'echo "$0" > "$5"',
                                       "<TestCase name='d'><OverallResult success='true'/></TestCase>"])])
    expect("a program that runs another case", [r.outcome for r in others], ["Failed"])
    late = run([Case("late", "c", ["bash", "-c", 'echo "$0" > "$5"; exit 3',
                                   "<TestCase name='c'><OverallResult success='true'/></TestCase>"])])
    expect("a program that fails after its cases", [(r.outcome, r.why) for r in late],
           [("Failed", "its process ended with 3")])
    for command, spec in ((["true"], "[planted]"), ([program], "[no such tag]")):
        try:
            cases_of("empty", command, spec)
            wrong.append(f"{command} {spec}: has cases")
        except ValueError:
            pass

    for case, (outcome, why) in (
            ("<OverallResult success='true'/>", ("Passed", "")),
            ("<OverallResult success='false'/>", ("Failed", "a check failed")),
            ("<FatalErrorCondition/><OverallResult success='false'/>", ("Failed", "ended with 3")),
            ("<Section><Warning> skipped: no\n GPU </Warning></Section><OverallResult success='true'/>",
             ("Skipped", "no GPU")),
            ("<Warning>skipped: late</Warning><OverallResult success='false'/>", ("Failed", "a check failed")),
            ("<OverallResult success='true' skips='1'/>", ("Skipped", "by Catch2"))):
        found = read_cases(f"<Run><TestCase name='c'>{case}</TestCase><TestCase name='d'>")
        judged = [(element.get("name"), *judge(element, "ended with 3")) for element in found]
        expect(case, judged, [("c", outcome, why)])
    expect("cases of a process", [len(take_some(queue_of([Case("p", "c", [])] * n), 6)) for n in (1, 13, 400)],
           [1, 2, 8])
    for code, output, wanted in (
            (0, "1: skipped: 2 ranks, and 1 GPUs\n1/1 Test #1: t ...***Skipped 0.1 sec\n", "Skipped"),
            (0, "1/1 Test #1: t ...   Passed 0.1 sec\n", "Passed"),
            (8, "No tests were found!!!\n", "Failed")):
        expect(output, judge_by_ctest(code, output)[0], wanted)
    for gpus, cores, wanted in ((Gpus(["0"], 143771, True), 16, 6), (Gpus(["0"], 8192, True), 16, 1),
                                (Gpus(["0", "1"], 12288, True), 64, 4), (Gpus(["0", "1"], 81920, False), 64, 2),
                                (Gpus(["0", "1"], 0, True), 1, 1)):
        expect(f"workers for {gpus}", workers_for(gpus, cores), wanted)
    print("\n".join(wrong) if wrong else f"test_gpu: self-test passed, {len(planted)} planted cases")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, metavar="FOLDER")
    parser.add_argument("--workers", type=int, metavar="N")
    parser.add_argument("--limit", type=float, metavar="SECONDS", default=1200)
    parser.add_argument("--only", metavar="TEXT", default="")
    parser.add_argument("--self-test", metavar="PROGRAM")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return self_test(options.self_test) if options.self_test else run_tests(options)


if __name__ == "__main__":
    sys.exit(main())
