#!/usr/bin/env python3
"""Checks that ranks on two hosts train, and survive what clusters do to them or end soon and say why.

  cluster_test.py STRATA FAULTY_DISK LATE_END SOURCES [CHECK...]    the usual checks, or those named; exit code 77 if
                                                                    there can be no such hosts here, with the reason

The hosts are those of two_hosts.py: namespaces of this machine with SLURM. Jobs have one rank on each host, and are
started by srun, with --kill-on-bad-exit and without, and by mpirun. What a check does to jobs it does to one of each at
the same time.
"""

import filecmp
import os
import re
import signal
import sys
import time
import traceback
from pathlib import Path

import two_hosts
from two_hosts import TwoHosts, wait_for

if len(sys.argv) < 5:
    sys.exit(__doc__)
STRATA, FAULTY_DISK, LATE_END, SOURCES = (Path(a).resolve() for a in sys.argv[1:5])
SCRATCH = two_hosts.STATE / "jobs"
WATCHDOG_S = 2
PATIENT_S = 300  # silence ends nothing
ENDS_S = 10  # a job of which a rank is killed or fails
NOTICED_S = WATCHDOG_S + 5  # one of which a rank is stopped or cut off

MPIRUN = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", ",".join(two_hosts.ADDRESSES), "-n", "2",
          "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", two_hosts.STATE / "remote_shell"]
SRUN = ["srun", "--mpi=pmix", "--nodes=2", "--ntasks=2"]
LAUNCHERS = {"srun": [*SRUN, "--kill-on-bad-exit=0"], "srun-kill": [*SRUN, "--kill-on-bad-exit=1"], "mpirun": MPIRUN}

STEPS = 200
# A run of steps that take milliseconds.
SHORT = ["--set", "data.sequence_length=16", "--set", "schedule.rows=1", "--set", "run.threads=1",
         "--set", "run.log_every=1000"]
ENDLESS = [*SHORT, "--set", "run.steps=1000000", "--set", "checkpoint.every_steps=null"]


def said(folder, event):
    """Returns how many lines of this event a run has written."""
    file = folder / "metrics.jsonl"
    return file.read_text().count(f'"event":"{event}"') if file.exists() else 0


class Job:
    """A run on both hosts."""

    def __init__(self, hosts, launcher, folder, *arguments, variables=()):
        self.launcher, self.folder, self.log = launcher, folder, folder.with_suffix(".log")
        self._start = lambda: hosts.start("ash", *LAUNCHERS[launcher], "env", *variables, STRATA, "train",
                                          SOURCES / "configs/tiny-cpu.json", "--output", folder, *arguments,
                                          log=self.log)
        self._process = self._start()

    def text(self):
        return self.log.read_text()

    def wait_for_step(self):
        self._wait_until_it_trains()
        if self.crashed_in_mpi():
            print(f"{self.launcher} is started again: a rank crashed before strata said anything\n{self.text()}")
            self._process.kill()
            wait_for("ranks of the crashed job end", lambda: not self.ranks())
            self.log.unlink()
            self._process = self._start()
            self._wait_until_it_trains()
        assert self._process.poll() is None and not self.crashed_in_mpi(), f"{self.launcher} has ended"

    def _wait_until_it_trains(self):
        wait_for(f"{self.launcher} trains", lambda: self._process.poll() is not None or said(self.folder, "step")
                 or self.crashed_in_mpi())

    def crashed_in_mpi(self):
        """Returns whether a rank crashed while MPI started it: that of Debian 12 (Open MPI 4.1.4, PMIx 4.2.2) jumps
        to a null pointer in one of a thousand starts by srun."""
        return "Signal: Segmentation fault" in self.text() and "[info]" not in self.text()

    def ranks(self):
        """Returns the processes of the job that live, by rank."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                arguments = (process / "cmdline").read_text().split("\0")
                variables = dict(v.split("=", 1) for v in (process / "environ").read_text().split("\0") if "=" in v)
            except OSError:  # it ends just now
                continue
            if arguments[0] == str(STRATA) and str(self.folder) in arguments and "PMIX_RANK" in variables:
                found[int(variables["PMIX_RANK"])] = int(process.name)
        return found

    def signal(self, rank, number):
        os.kill(self.ranks()[rank], number)

    def wait_for_ranks(self, end):
        """Waits until no rank is left, at most until this moment of the monotonic clock."""
        wait_for(f"all ranks of {self.launcher} end", lambda: not self.ranks(), end - time.monotonic())

    def wait(self, seconds):
        """Returns the launcher's exit code once it has ended, in so many seconds."""
        return self._process.wait(seconds)


def start_jobs(hosts, name, watchdog_s, *arguments, variables=()):
    """Starts an endless job by each launcher, and returns them once all train."""
    jobs = [Job(hosts, launcher, SCRATCH / f"{name}-{launcher}", *ENDLESS, "--set", f"run.watchdog_s={watchdog_s}",
                *arguments, variables=variables) for launcher in LAUNCHERS]
    for job in jobs:
        job.wait_for_step()
    return jobs


def check_ended(jobs, begin, limit_s, code, *texts):
    """Checks that the ranks of the jobs end within the limit, with this exit code, and that their logs have all of
    these texts."""
    for job in jobs:
        job.wait_for_ranks(begin + limit_s)
    for job in jobs:
        ended = job.wait(limit_s)
        assert code is None and ended != 0 or ended == code, f"{job.launcher} ends with exit code {ended}"
        for text in texts:
            assert re.search(text, job.text()), f"{job.launcher} does not say {text!r}"


def share_of(text):
    """Returns how many MiB of state a rank says that it has."""
    return float(re.search(r"([\d.]+) MiB of this rank's share", text)[1])


def check_same_state(one, other):
    """Compares the last checkpoints of two runs, bit by bit."""
    folders = [sorted((folder / "checkpoints").glob("step-*"))[-1] for folder in (one, other)]
    files = [{f.relative_to(folder) for part in ("model", "state") for f in (folder / part).iterdir()}
             for folder in folders]
    assert files[0] == files[1] and files[0], f"{one} and {other} have other files"
    for file in files[0]:
        assert filecmp.cmp(folders[0] / file, folders[1] / file, shallow=False), f"{file} differs in {one}, {other}"


def submit(hosts, folder, options, arguments, variables=()):
    """Submits scripts/train.sbatch in a new folder, and returns the job's number, its run folder and its log."""
    folder.mkdir()
    job = hosts.run("ash", "env", f"STRATA={STRATA}", *variables, "sbatch", "--parsable", "--nodes=2", "--cpus-per-task=4", *options,
                    SOURCES / "scripts/train.sbatch", SOURCES / "configs/tiny-cpu.json", *arguments,
                    folder=folder).strip()
    return job, folder / f"runs/strata-{job}", folder / f"strata-{job}.log"


def wait_until_requeued(hosts, job, seconds=30):
    wait_for("the batch job is requeued", lambda: "Restarts=1" in hosts.run("ash", "scontrol", "show", "job", job),
             seconds)


def starts(hosts):
    """srun, mpirun and a batch job that is signalled, saved, requeued and resumed end with the same bits, and
    run.shard_group = "node" sees two hosts."""
    arguments = [*SHORT, "--set", f"run.steps={STEPS}", "--set", "run.shard_group=node"]
    whole = [Job(hosts, launcher, SCRATCH / f"whole-{launcher}", *arguments) for launcher in ("srun", "mpirun")]
    # SLURM ends what is left of a job when its first rank has failed, and 75 is no success.
    late = [f"LD_PRELOAD={LATE_END}", "LATE_RANK=1", "LATE_MS=1000"]
    job, folder, log = submit(hosts, SCRATCH / "batch", [], arguments, late)
    wait_for("the batch job trains", lambda: said(folder, "step") >= STEPS / 10, 60)
    hosts.run("ash", "scancel", "--signal=USR1", job)
    wait_until_requeued(hosts, job)
    assert re.search("Exited with exit code 75", log.read_text()), "the batch job has no exit code 75"
    assert said(folder, "step") < STEPS, "the batch job was done before the signal"
    wait_for("the batch job goes on", lambda: said(folder, "resume"), 60)
    for other in whole:
        assert other.wait(60) == 0, f"{other.launcher} fails"
        check_same_state(whole[0].folder, other.folder)
    wait_for("the batch job ends", lambda: said(folder, "end") == 2, 60)
    check_same_state(whole[0].folder, folder)
    assert "squeue does not say" not in log.read_text()

    together = Job(hosts, "srun", SCRATCH / "together", *SHORT, "--set", "run.steps=2", "--set", "optimizer.warmup_steps=1")
    assert together.wait(30) == 0
    ratio = share_of((whole[0].folder / "train.log").read_text()) / share_of((together.folder / "train.log").read_text())
    assert 1.9 < ratio < 2.1, f"with a group for each host a rank holds {ratio} times of what it holds else"


def time_limit(hosts):
    """A batch job that SLURM would end after a minute saves before that, is requeued, and goes on."""
    job, folder, log = submit(hosts, SCRATCH / "timed", ["--time=1", "--signal=USR1@1"], ENDLESS)
    wait_until_requeued(hosts, job, 90)
    assert "the time limit" in log.read_text() and "exit code 75" in log.read_text(), "nothing is said of the limit"
    assert "DUE TO TIME LIMIT" not in log.read_text(), "SLURM has ended the job"
    saved = sorted((folder / "checkpoints").glob("step-*"))[-1]
    wait_for("the batch job goes on", lambda: said(folder, "resume"), 60)
    resumed = next(line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"event":"resume"' in line)
    assert f'"step":{int(saved.name[5:])},' in resumed, f"it goes on from another step: {resumed}"
    hosts.run("ash", "scancel", job)


def kill(hosts):
    """A job of which a rank is killed ends within ten seconds, and says which."""
    jobs = start_jobs(hosts, "killed", PATIENT_S)
    begin = time.monotonic()
    for job in jobs:
        job.signal(1, signal.SIGKILL)
    check_ended(jobs, begin, ENDS_S, None, "rank 1 is gone|process rank 1 .* exited on signal 9")


def throw(hosts):
    """A job of which a rank throws ends within ten seconds, with its error before all others and its exit code."""
    text, tokens = SCRATCH / "text.txt", SCRATCH / "tokens.bin"
    text.write_text("some words\n" * 1000)
    hosts.run("ash", STRATA, "tokenize", text, "--output", tokens)
    fault = ["LD_PRELOAD=" + str(FAULTY_DISK), f"FAULT_PATH={tokens}", "FAULT_CALL=pread", "FAULT_AFTER=200",
             "FAULT_RANK=1"]
    jobs = start_jobs(hosts, "throws", PATIENT_S, "--set", "data.synthetic=false", "--set", f"data.train={tokens}",
                      variables=fault)
    check_ended(jobs, time.monotonic(), ENDS_S, 2, "tokens.bin.*Input/output error")
    for job in jobs:
        cause, *others = [line for line in job.text().splitlines() if "[error]" in line]
        assert "[rank 1 of 2]" in cause and all("rank 1 is gone" in o for o in others), f"{job.launcher}: {others}"


def stop(hosts):
    """A job of which a rank is stopped ends in time, and the other names the rank."""
    jobs = start_jobs(hosts, "stopped", WATCHDOG_S)
    begin = time.monotonic()
    for job in jobs:
        job.signal(1, signal.SIGSTOP)
    check_ended(jobs, begin, NOTICED_S, 5, "exit code 5: rank 1 is silent")


def cut(hosts):
    """All ranks of a job whose cable is pulled end in time, on both sides, and name the rank that is gone."""
    jobs = start_jobs(hosts, "cut", WATCHDOG_S)
    begin = time.monotonic()
    hosts.pull_cable()
    for job in jobs:
        job.wait_for_ranks(begin + NOTICED_S)
        assert "exit code 5: rank 1 is silent" in job.text(), f"{job.launcher} does not say who is silent"
    # srun waits some seconds for the other host; mpirun waits for its daemon there for as long as TCP does.
    for job in jobs[:-1]:
        assert job.wait(15) == 5, f"{job.launcher} ends with another exit code"


CHECKS = [starts, kill, throw, stop, cut]  # nothing comes after the cable is cut
ON_REQUEST = [time_limit]  # takes more than the minute that is SLURM's shortest limit


def main():
    if reason := two_hosts.why_not():
        print(f"skipped: {reason}")
        sys.exit(77)
    two_hosts.enter_namespaces()
    wanted = sys.argv[5:] or [check.__name__ for check in CHECKS]
    hosts = TwoHosts()
    SCRATCH.mkdir()
    for check in [check for check in [*ON_REQUEST, *CHECKS] if check.__name__ in wanted]:
        begin = time.monotonic()
        try:
            check(hosts)
        except Exception:
            traceback.print_exc()
            for log in [*SCRATCH.glob("*.log"), *SCRATCH.glob("batch/*.log")]:
                print(f"--- {log}\n{log.read_text()[-4000:]}")
            print(hosts.logs())
            sys.exit(f"FAILED: {check.__name__}")
        print(f"passed: {check.__name__}, {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
