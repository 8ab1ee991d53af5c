#!/usr/bin/env python3
"""Lets one rank of a job fail in several ways, and checks that the job ends in time and names the right rank.

  scripts/measure/failing_ranks.py [STRATA]   this program (build/cpu-release/strata)
    --config FILE       of the run (configs/tiny-cpu.json, made larger, so that its memory can be told apart)
    --set KEY=VALUE     as of strata train; several times
    --ranks N           the last one fails (2)
    --watchdog SECONDS  run.watchdog_s of the jobs (20)
    --mpirun COMMAND    the launcher (mpirun --bind-to none)
    --only TEXT         cases whose name has this text
    --folder DIR        where runs have their folders (the system's folder for temporary files)

It needs the program, an MPI launcher and nothing else: ranks are stopped and killed by signals, one runs out of memory
by a limit of its address space. On GPUs, take a config that runs on them, with some GiB of state on the host:

  scripts/measure/failing_ranks.py build/cuda-release/strata --config configs/llama-1.3b.json \\
      --set schedule.resident_units=0 --set data.synthetic=true

The last lines say for each case how long it took and what became of it. The exit code is 1 if one was not as it should.
What it does takes time and depends on it, so it is no test: a machine that stands still for as long as the watchdog's
limit fails here.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs/tiny-cpu.json"
# Some 1.5 GiB of state on each of two ranks, and steps that take a moment.
LARGER = ["model.vocab_size=64000", "model.hidden_size=1024", "model.num_attention_heads=16",
          "model.num_key_value_heads=16", "data.sequence_length=16", "schedule.rows=1", "schedule.sub_batches=1"]
NO_SAVES = ["checkpoint.at_end=false", "checkpoint.every_steps=null"]
ENDLESS = ["run.steps=1000000000", "run.log_every=1"]
START_S = 600  # that a start takes at most
OUT_OF_MEMORY, HUNG = 3, 5

# Each rank leaves its process's number, and the faulty one may have a limit (KiB) of its address space.
WRAPPER = r"""
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}
echo $$ > "$1/pid.$rank"
[ "$rank" = "$2" ] && [ -n "$3" ] && ulimit -v "$3"
shift 3
exec "$@"
"""


class Job:
    """Ranks that train until something ends them."""

    def __init__(self, options, folder, keys, limit_kib=""):
        self.folder = folder
        self.faulty = options.ranks - 1
        self.output = folder / "output.txt"
        sets = [word for key in options.set + NO_SAVES + ENDLESS + keys for word in ("--set", key)]
        command = [*shlex.split(options.mpirun), "-n", str(options.ranks), "sh", "-c", WRAPPER, "sh", str(folder),
                   str(self.faulty), str(limit_kib), options.strata, "train", str(options.config), "--output",
                   str(folder / "run"), *sets]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_rmaps_base_oversubscribe="1")
        self.begin = time.monotonic()
        with open(self.output, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env=environment, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends what still runs: a stopped rank goes on, and is killed."""
        for rank in range(self.faulty + 1):
            self.send(signal.SIGKILL, rank)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def pid(self, rank):
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / f"pid.{rank}").read_text(encoding="utf-8"))
        return None

    def send(self, number, rank=None):
        pid = self.pid(self.faulty if rank is None else rank)
        with contextlib.suppress(OSError):
            if pid is not None:
                os.kill(pid, number)

    def steps(self):
        with contextlib.suppress(OSError):
            return (self.folder / "run/metrics.jsonl").read_text(encoding="utf-8").count('"event":"step"')
        return 0

    def wait_for(self, what, condition, limit_s=START_S):
        end = time.monotonic() + limit_s
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended with {self.process.returncode} before {what}")
            if time.monotonic() > end:
                raise AssertionError(f"within {limit_s:.0f} s not {what}")
            time.sleep(0.02)

    def wait_for_steps(self, steps):
        wanted = self.steps() + steps
        self.wait_for(f"{steps} more steps", lambda: self.steps() >= wanted)

    def end(self, limit_s):
        """Returns the exit code and the seconds until the end."""
        begin = time.monotonic()
        try:
            code = self.process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {limit_s:.0f} s") from None
        return code, time.monotonic() - begin

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def require(self, code, wanted, pattern):
        if code not in wanted:
            raise AssertionError(f"exit code {code}, not {' or '.join(map(str, wanted))}")
        if not re.search(pattern, self.text()):
            raise AssertionError(f"nothing says {pattern!r}")


def status_kib(pid, key):
    """A line of /proc/PID/status, in KiB."""
    with contextlib.suppress(OSError):
        found = re.search(rf"^{key}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"), re.M)
        if found:
            return int(found[1])
    return 0


def healthy(options, folder):
    """A run with no fault. Its memory tells which limit is too low."""
    with Job(options, folder, []) as job:
        job.wait_for_steps(3)
        pid = job.pid(job.faulty)
        options.space_kib, options.resident_kib = status_kib(pid, "VmPeak"), status_kib(pid, "VmRSS")
        options.start_s = time.monotonic() - job.begin
        job.send(signal.SIGUSR1, 0)
        code, _ = job.end(60 + options.watchdog)
        job.require(code, [128 + signal.SIGUSR1], "SIGUSR1")
        return f"{options.start_s:.0f} s to step 3, a rank has {options.resident_kib / 2**20:.1f} GiB"


def memory(options, folder):
    """A rank that gets only half of its memory, which it learns when it takes it."""
    limit = options.space_kib - options.resident_kib // 2
    with Job(options, folder, [], limit) as job:
        code, _ = job.end(2 * options.start_s + 60)
        job.require(code, [OUT_OF_MEMORY], rf"(\[rank {job.faulty} of {options.ranks}\]|\brank {job.faulty}:).*(memory|refused|addresses)")
        if job.steps() > 0:
            raise AssertionError("it had memory for steps")
        return f"exit code {code}"


def killed_early(options, folder):
    """A rank that dies while the job starts."""
    with Job(options, folder, []) as job:
        job.wait_for("a process", lambda: job.pid(job.faulty) is not None)
        time.sleep(options.start_s / 3)
        job.send(signal.SIGKILL)
        code, seconds = job.end(60)
        if code == 0:
            raise AssertionError("exit code 0")
        return f"exit code {code} after {seconds:.1f} s"


def stopped(options, folder):
    """A rank that is stopped in the middle of steps."""
    with Job(options, folder, []) as job:
        job.wait_for_steps(2)
        job.send(signal.SIGSTOP)
        code, seconds = job.end(options.watchdog + 60)
        job.require(code, [HUNG], rf"exit code 5: rank {job.faulty} is silent, not heard of for")
        for rank in range(job.faulty):
            job.require(code, [HUNG], rf"this rank, {rank}: ")
        return f"exit code {code} after {seconds:.1f} s"


def stopped_early(options, folder):
    """A rank that is stopped while the job starts."""
    with Job(options, folder, []) as job:
        job.wait_for("the ranks' meeting", lambda: re.search(r"rank +\d+  host", job.text()))
        time.sleep(1)
        job.send(signal.SIGSTOP)
        code, seconds = job.end(options.watchdog + 60)
        job.require(code, [HUNG], rf"exit code 5: rank {job.faulty} is silent, not heard of for")
        return f"exit code {code} after {seconds:.1f} s"


def slow(options, folder):
    """A rank that loses more time than the limit, piece by piece, and so holds all up: the run goes on."""
    with Job(options, folder, []) as job:
        job.wait_for_steps(2)
        lost = 0
        begin = time.monotonic()
        while lost < 2 * options.watchdog:
            job.send(signal.SIGSTOP)
            time.sleep(0.4 * options.watchdog)
            lost += 0.4 * options.watchdog
            job.send(signal.SIGCONT)
            time.sleep(0.02 * options.watchdog)
        seconds = time.monotonic() - begin
        job.wait_for_steps(2)
        job.send(signal.SIGUSR1, 0)
        code, _ = job.end(60 + options.watchdog)
        job.require(code, [128 + signal.SIGUSR1], "SIGUSR1")
        return f"went on after {lost:.0f} of {seconds:.0f} s were lost"


CASES = {"healthy": healthy, "out of memory at the start": memory, "killed at the start": killed_early,
         "stopped at the start": stopped_early, "stopped": stopped, "slow": slow}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata", nargs="?", default=str(ROOT / "build/cpu-release/strata"))
    parser.add_argument("--config", type=Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--watchdog", type=float, default=20)
    parser.add_argument("--mpirun", default="mpirun --bind-to none")
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    options.strata = str(Path(options.strata).resolve())
    if options.config is None:
        options.config, options.set = CONFIG, LARGER + options.set
    options.set.append(f"run.watchdog_s={options.watchdog}")

    lines, failed = [], 0
    base = Path(tempfile.mkdtemp(prefix="strata-failing-ranks-", dir=options.folder))
    for name, case in CASES.items():
        if options.only not in name and name != "healthy":
            continue
        folder = base / name.replace(" ", "-")
        folder.mkdir()
        begin = time.monotonic()
        try:
            told = "right  " + case(options, folder)
        except AssertionError as error:
            failed += 1
            told = f"WRONG  {error}"
            print(f"--- {name}: what the job said\n{(folder / 'output.txt').read_text(errors='replace')}", flush=True)
        lines.append(f"{name:<28}{time.monotonic() - begin:6.1f} s  {told}")
        print(lines[-1], flush=True)
        if name == "healthy" and failed:
            break
    shutil.rmtree(base, ignore_errors=True)
    print(f"\n{options.ranks} ranks, {options.config.name}, run.watchdog_s {options.watchdog:g}")
    print("\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
