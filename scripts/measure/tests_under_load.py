#!/usr/bin/env python3
"""Runs tests many times where everything is slow: two cores with four busy loops, a writer and half of the memory taken.

  scripts/measure/tests_under_load.py [FOLDER]   runs ctest's tests of this build folder (build/cpu-release)
    --labels REGEX    those with such a label (fast|long|kills|cookbook)
    --times N         each N times (30)
    --limit SECONDS   begins none afterwards, and ends those that still run, which count as not ended
    --temporary PATH  where tests and writers have their files (the system's folder for such files)

A machine with more cores does it in slots of two, each with its own busy loops and its part of the memory; they share
one disk, and so one writer. A slot runs three tests at a time. The last lines say for each test
how often it passed, failed and did not end; what failed is shown before. The exit code is 1 if one failed, or if none
passed.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SKIPPED = 77
BUSY_LOOPS = 4
AT_A_TIME = 3
WRITTEN = 256 << 20
KEPT_OUTPUT = 16000


def tests_of(build, labels):
    """The tests as (name, command, environment, folder)."""
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, text=True,
                            stdout=subprocess.PIPE)
    for test in json.loads(listed.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test["properties"]}
        if "command" in test and re.search(labels, " ".join(properties.get("LABELS", []))):
            environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
            yield test["name"], test["command"], environment, properties.get("WORKING_DIRECTORY", ".")


def begin(program, cores):
    return subprocess.Popen([sys.executable, "-c", program], preexec_fn=lambda: os.sched_setaffinity(0, cores))


def writer(folder):
    """A program that writes to this folder's disk for ever."""
    return f"""
import os
block = bytes(1 << 20)
while True:
    with open({str(folder / "written")!r}, "wb") as file:
        for _ in range({WRITTEN >> 20}):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())"""


def load(cores, memory):
    """Begins what takes a slot's cores and memory; returns the processes."""
    busy = "while True: pass"
    # Each page is written: memory that was only promised takes none.
    taken = f"""
import mmap, signal
pages = mmap.mmap(-1, {memory})
for at in range(0, {memory}, 4096):
    pages[at] = 1
signal.pause()"""
    return [begin(program, cores) for program in [busy] * BUSY_LOOPS + [taken]]


def end_what_is_left(folders):
    """Kills the processes that have their temporary files in these folders: those with sessions of their own."""
    marks = [b"TMPDIR=" + os.fsencode(folder) for folder in folders]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            environment = (process / "environ").read_bytes().split(b"\0")
            if any(entry.startswith(mark) for entry in environment for mark in marks):
                os.kill(int(process.name), signal.SIGKILL)


class Slot:
    # CMake's scripts have their files in the build folder: one of each at a time.
    turns = collections.defaultdict(contextlib.nullcontext)

    def __init__(self, number, cores, temporary, memory, queue, results, end):
        self.folder = Path(tempfile.mkdtemp(prefix=f"load{number}-", dir=temporary))
        os.chmod(self.folder, 0o755)
        self.cores, self.queue, self.results, self.end = cores, queue, results, end
        self.load = load(cores, memory)
        self.workers = [threading.Thread(target=self.work) for _ in range(AT_A_TIME)]
        for worker in self.workers:
            worker.start()

    def work(self):
        while time.monotonic() < self.end:
            try:
                name, command, environment, folder = self.queue.popleft()
            except IndexError:
                return
            own = tempfile.mkdtemp(dir=self.folder)
            os.chmod(own, 0o755)  # tests that become another user look at what they find in it
            with self.turns[name]:
                outcome, code, output = self.run(command, environment, folder, own)
            shutil.rmtree(own, ignore_errors=True)
            self.results[name][outcome] += 1
            if outcome == "failed":
                print(f"== {name} failed with exit code {code}: {shlex.join(command)}", flush=True)
                print(output.decode(errors="replace")[-KEPT_OUTPUT:], flush=True)

    def run(self, command, environment, folder, own):
        if time.monotonic() >= self.end:  # it has waited for its turn
            return "not ended", None, b""
        # A file takes the output: a pipe would be held open by whatever the test has left behind.
        with tempfile.TemporaryFile(dir=self.folder) as output:
            # So many programs at a time do not fit a GPU, which these tests do not need.
            program = subprocess.Popen(command, cwd=folder,
                                       env={**os.environ, **environment, "TMPDIR": own, "CUDA_VISIBLE_DEVICES": ""},
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
            try:
                code = program.wait(timeout=max(1, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                return "not ended", program.wait(), b""
            output.seek(0)
            text = output.read()
        return "passed" if code == 0 else "skipped" if code == SKIPPED else "failed", code, text

    def unload(self):
        """Ends the load when the tests, or their time, have ended: so those that are left are over sooner."""
        for worker in self.workers:
            worker.join(max(0, self.end - time.monotonic()))
        for process in self.load:
            process.kill()
            process.wait()

    def join(self):
        for worker in self.workers:
            worker.join()


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", 1)[1])
    parser.add_argument("build", nargs="?", type=Path, default=Path("build/cpu-release"))
    parser.add_argument("--labels", default="fast|long|kills|cookbook")
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--limit", type=float, default=86400)
    parser.add_argument("--temporary")
    options = parser.parse_args()

    tests = list(tests_of(options.build, options.labels))
    cores = sorted(os.sched_getaffinity(0))
    slots = max(1, len(cores) // 2)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // slots
    print(f"{len(tests)} tests, {options.times} times, in {slots} slots of two cores with {memory >> 20} MiB taken each",
          flush=True)
    # The long ones first, as ctest's costs have it, or the last slot would work alone.
    long_first = sorted(tests, key=lambda test: not re.search("e2e|long|kills|slow", test[0]))
    queue = collections.deque(test for _ in range(options.times) for test in long_first)
    results = collections.defaultdict(collections.Counter)
    begun = time.monotonic()
    Slot.turns.update((name, threading.Lock()) for name, command, *_ in tests if "-P" in command)
    written = Path(tempfile.mkdtemp(prefix="load-", dir=options.temporary))
    writing = begin(writer(written), cores)
    working = [Slot(number, set(cores[2 * number : 2 * number + 2]), options.temporary, memory, queue, results,
                    begun + options.limit) for number in range(slots)]
    for slot in working:
        slot.unload()
    writing.kill()
    for slot in working:
        slot.join()
    writing.wait()

    outcomes = ("passed", "failed", "skipped", "not ended")
    total = collections.Counter()
    print(f"{'test':32}" + "".join(f"{outcome:>11}" for outcome in outcomes))
    for name, counts in sorted(results.items()):
        total.update(counts)
        print(f"{name:32}" + "".join(f"{counts[outcome]:11}" for outcome in outcomes))
    print(f"{'all, in %.0f s' % (time.monotonic() - begun):32}" + "".join(f"{total[outcome]:11}" for outcome in outcomes))
    sys.stdout.flush()
    end_what_is_left([slot.folder for slot in working])
    for folder in [written] + [slot.folder for slot in working]:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
