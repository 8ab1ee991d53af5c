#!/usr/bin/env python3
"""Checks that ranks on two hosts train, and survive what clusters do to them or end and say why.

  cluster_test.py STRATA FAULTY_DISK LATE_END SOURCES [CHECK...]    the usual checks, or those named; exit code 77 if
                                                                    there can be no such hosts here, with the reason

The hosts are those of two_hosts.py: namespaces of this machine with SLURM. Jobs have one rank on each host, and are
started by srun, with --kill-on-bad-exit and without, and by mpirun. What a check does to jobs it does to one of each at
the same time. Jobs would go on for days: that they end is what was done to them, and what they say tells why.
"""

import contextlib
import filecmp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import two_hosts
from two_hosts import TwoHosts

if len(sys.argv) < 5:
    sys.exit(__doc__)
STRATA, FAULTY_DISK, LATE_END, SOURCES = (Path(a).resolve() for a in sys.argv[1:5])
SCRATCH = two_hosts.STATE / "jobs"
WATCHDOG_S = 20  # nobody is taken for silent on a machine that is busy for less than this
PATIENT_S = 100000  # silence ends nothing

MPIRUN = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", ",".join(two_hosts.ADDRESSES), "-n", "2",
          "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", two_hosts.STATE / "remote_shell"]
SRUN = ["srun", "--mpi=pmix", "--nodes=2", "--ntasks=2"]
LAUNCHERS = {"srun": [*SRUN, "--kill-on-bad-exit=0"], "srun-kill": [*SRUN, "--kill-on-bad-exit=1"], "mpirun": MPIRUN}

# A run of steps that take milliseconds.
SHORT = ["--set", "data.sequence_length=16", "--set", "schedule.rows=1", "--set", "run.threads=1",
         "--set", "run.log_every=1000"]
DAYS = 1000000000  # of such steps
ENDLESS = [*SHORT, "--set", f"run.steps={DAYS}", "--set", "checkpoint.every_steps=null"]


def said(folder, event):
    """Returns how many lines of this event a run has written."""
    file = folder / "metrics.jsonl"
    return file.read_text().count(f'"event":"{event}"') if file.exists() else 0


def text_of_job(log):
    """Returns what a launcher has written, and then what its ranks have."""
    return "".join(file.read_text() for file in [log, *sorted(log.parent.glob(f"{log.stem}.rank-*.log"))])


class CrashedInMpi(Exception):
    """A rank crashed while MPI started it. That of Debian 12 (Open MPI 4.1.4) does in one of some hundred starts by
    srun on a busy machine, of programs that only call MPI_Init_thread as well: a message comes by its TCP transport
    (btl/tcp) before the rank has said, in its ompi_mpi_init, who takes messages, and a null pointer is called. The
    other rank then waits for ever."""


def check_starts():
    """Raises CrashedInMpi if a rank crashed before strata said anything. The log of a batch job has all its starts, of
    which those that were saved end with exit code 75."""
    texts = [text_of_job(log) for log in SCRATCH.glob("*.log") if ".rank-" not in log.name]
    texts += [log.read_text().split("Exited with exit code 75")[-1] for log in SCRATCH.glob("*/strata-*.log")]
    for text in texts:
        if "Signal: Segmentation fault" in text and "[info]" not in text:
            raise CrashedInMpi(text)


def wait_for(what, condition):
    """Waits as two_hosts does, unless a rank crashes at its start, which may make that impossible."""
    two_hosts.wait_for(what, lambda: check_starts() or condition())


def live_ranks():
    """Returns the process, the rank and the arguments of each rank that lives, of any job."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_text().split("\0")
            if arguments[0] != str(STRATA):
                continue
            variables = dict(v.split("=", 1) for v in (process / "environ").read_text().split("\0") if "=" in v)
        except OSError:  # it ends just now
            continue
        if "PMIX_RANK" in variables:
            found.append((int(process.name), int(variables["PMIX_RANK"]), arguments))
    return found


class Job:
    """A run on both hosts. Each rank writes into a file of its own: SLURM may lose the last lines of a rank when another
    one ends the job."""

    def __init__(self, hosts, launcher, folder, *arguments, variables=()):
        self.launcher, self.folder, self.log = launcher, folder, folder.with_suffix(".log")
        own_file = ["sh", "-c", 'exec "$@" >"$0.rank-$PMIX_RANK.log" 2>&1', folder]
        self._process = hosts.start("ash", *LAUNCHERS[launcher], *own_file, "env", *variables, STRATA, "train",
                                    SOURCES / "configs/tiny-cpu.json", "--output", folder, *arguments, log=self.log)

    def text(self):
        return text_of_job(self.log)

    def wait_for_step(self):
        """Waits until a step is done. A job that fails by itself may have ended by then."""
        wait_for(f"{self.launcher} trains", lambda: said(self.folder, "step") or self._process.poll() is not None)
        assert said(self.folder, "step"), f"{self.launcher} has ended before its first step"

    def ranks(self):
        """Returns the processes of the job that live, by rank."""
        return {rank: process for process, rank, arguments in live_ranks() if str(self.folder) in arguments}

    def signal(self, rank, number):
        os.kill(self.ranks()[rank], number)

    def wait_for_ranks(self):
        """Waits until no rank is left."""
        wait_for(f"all ranks of {self.launcher} end", lambda: not self.ranks())

    def wait(self):
        """Returns the launcher's exit code once it has ended."""
        wait_for(f"{self.launcher} ends", lambda: self._process.poll() is not None)
        return self._process.returncode


def start_jobs(hosts, name, watchdog_s, *arguments, variables=()):
    """Starts an endless job by each launcher, and returns them once all train."""
    jobs = [Job(hosts, launcher, SCRATCH / f"{name}-{launcher}", *ENDLESS, "--set", f"run.watchdog_s={watchdog_s}",
                *arguments, variables=variables) for launcher in LAUNCHERS]
    for job in jobs:
        job.wait_for_step()
    return jobs


def check_ended(jobs, code, *texts):
    """Checks that the ranks of the jobs end, with this exit code, and that their logs have all of these texts."""
    for job in jobs:
        job.wait_for_ranks()
    for job in jobs:
        ended = job.wait()
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


def submit(hosts, folder, options, config, arguments, variables=()):
    """Submits scripts/train.sbatch in a new folder, without the GPU that it asks for and that the hosts lack, and
    returns the job's number, its run folder and its log."""
    folder.mkdir()
    job = hosts.run("ash", "env", f"STRATA={STRATA}", *variables, "sbatch", "--parsable", "--nodes=2", "--cpus-per-task=4",
                    "--gpus-per-node=0", *options, SOURCES / "scripts/train.sbatch", config, *arguments,
                    folder=folder).strip()
    return job, folder / f"runs/strata-{job}", folder / f"strata-{job}.log"


def wait_until_requeued(hosts, job):
    wait_for("the batch job is requeued", lambda: "Restarts=1" in hosts.run("ash", "scontrol", "show", "job", job))


def write_config(file, steps):
    config = json.loads((SOURCES / "configs/tiny-cpu.json").read_text())
    config["run"]["steps"] = steps
    file.write_text(json.dumps(config))


def gpus(hosts):
    """Jobs of both scripts ask for GPUs, which SLURM refuses where hosts have none."""
    for script in ("train.sbatch", "bench.sbatch"):
        try:
            hosts.run("ash", "sbatch", "--test-only", SOURCES / "scripts" / script, "CONFIG", errors=subprocess.STDOUT)
        except subprocess.CalledProcessError as error:
            assert "generic resource (gres)" in error.stdout, error.stdout
        else:
            raise AssertionError(f"{script} asks for no GPU")
        hosts.run("ash", "sbatch", "--test-only", "--gpus-per-node=0", SOURCES / "scripts" / script, "CONFIG")


def starts(hosts):
    """A batch job that is signalled, saved, requeued and resumed, srun and mpirun end with the same bits, and
    run.shard_group = "node" sees two hosts."""
    arguments = [*SHORT, "--set", "run.shard_group=node"]
    # SLURM ends what is left of a job when its first rank has failed, and 75 is no success. The other one is held until
    # that is under way. How far the run goes is said when it is known how far it came before the signal.
    config, gate = SCRATCH / "run.json", SCRATCH / "gate"
    write_config(config, DAYS)
    late = [f"LD_PRELOAD={LATE_END}", "LATE_RANK=1", f"LATE_UNTIL={gate}"]
    job, folder, log = submit(hosts, SCRATCH / "batch", [], config, arguments, late)
    wait_for("the batch job trains", lambda: said(folder, "step") >= 20)
    hosts.run("ash", "scancel", "--signal=USR1", job)
    wait_for("the other rank is held", gate.with_suffix(".held").exists)
    wait_for("the first rank has ended", lambda: "Exited with exit code 75" in log.read_text())
    end = next(line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"event":"end"' in line)
    steps = json.loads(end)["steps"] + 50
    write_config(config, steps)
    gate.touch()
    wait_until_requeued(hosts, job)
    whole = [Job(hosts, launcher, SCRATCH / f"whole-{launcher}", *arguments, "--set", f"run.steps={steps}")
             for launcher in ("srun", "mpirun")]
    wait_for("the batch job goes on", lambda: said(folder, "resume"))
    for other in whole:
        assert other.wait() == 0, f"{other.launcher} fails"
        check_same_state(whole[0].folder, other.folder)
    wait_for("the batch job ends", lambda: said(folder, "end") == 2)
    check_same_state(whole[0].folder, folder)
    assert "squeue does not say" not in log.read_text()

    together = Job(hosts, "srun", SCRATCH / "together", *SHORT, "--set", "run.steps=2", "--set", "optimizer.warmup_steps=1")
    assert together.wait() == 0
    ratio = share_of((whole[0].folder / "train.log").read_text()) / share_of((together.folder / "train.log").read_text())
    assert 1.9 < ratio < 2.1, f"with a group for each host a rank holds {ratio} times of what it holds else"


def time_limit(hosts):
    """A batch job that SLURM would end after two minutes saves before that, is requeued, and goes on."""
    job, folder, log = submit(hosts, SCRATCH / "timed", ["--time=2", "--signal=USR1@1"],
                              SOURCES / "configs/tiny-cpu.json", ENDLESS)
    wait_until_requeued(hosts, job)
    assert "the time limit" in log.read_text() and "exit code 75" in log.read_text(), "nothing is said of the limit"
    assert "DUE TO TIME LIMIT" not in log.read_text(), "SLURM has ended the job"
    saved = sorted((folder / "checkpoints").glob("step-*"))[-1]
    wait_for("the batch job goes on", lambda: said(folder, "resume"))
    resumed = next(line for line in (folder / "metrics.jsonl").read_text().splitlines() if '"event":"resume"' in line)
    assert f'"step":{int(saved.name[5:])},' in resumed, f"it goes on from another step: {resumed}"
    hosts.run("ash", "scancel", job)


def kill(hosts):
    """A job of which a rank is killed ends, and says which."""
    jobs = start_jobs(hosts, "killed", PATIENT_S)
    for job in jobs:
        job.signal(1, signal.SIGKILL)
    check_ended(jobs, None, "rank 1 is gone|process rank 1 .* exited on signal 9")


def throw(hosts):
    """A job of which a rank throws ends with its error and its exit code."""
    text, tokens = SCRATCH / "text.txt", SCRATCH / "tokens.bin"
    text.write_text("some words\n" * 1000)
    hosts.run("ash", STRATA, "tokenize", text, "--output", tokens)
    fault = ["LD_PRELOAD=" + str(FAULTY_DISK), f"FAULT_PATH={tokens}", "FAIL_CALL=pread", "FAIL_AFTER=200",
             "FAULT_RANK=1"]
    jobs = start_jobs(hosts, "throws", PATIENT_S, "--set", "data.synthetic=false", "--set", f"data.train={tokens}",
                      variables=fault)
    check_ended(jobs, 2, "tokens.bin.*Input/output error")
    for job in jobs:
        errors = [line for line in job.text().splitlines() if "[error]" in line]
        causes = [line for line in errors if "[rank 1 of 2]" in line]
        assert len(causes) == 1, f"{job.launcher}: {causes}"
        assert all("rank 1 is gone" in e for e in errors if e not in causes), f"{job.launcher}: {errors}"


def stop(hosts):
    """A job of which a rank is stopped ends, and the other names the rank."""
    jobs = start_jobs(hosts, "stopped", WATCHDOG_S)
    for job in jobs:
        job.signal(1, signal.SIGSTOP)
    check_ended(jobs, 5, "exit code 5: rank 1 is silent")


def cut(hosts):
    """All ranks of a job whose cable is pulled end, on both sides, and name the rank that is gone."""
    jobs = start_jobs(hosts, "cut", WATCHDOG_S)
    hosts.pull_cable()
    for job in jobs:
        job.wait_for_ranks()
        assert "exit code 5: rank 1 is silent" in job.text(), f"{job.launcher} does not say who is silent"
    # srun waits some seconds for the other host; mpirun waits for its daemon there for as long as TCP does.
    for job in jobs[:-1]:
        assert job.wait() == 5, f"{job.launcher} ends with another exit code"


def start_over(hosts):
    """Ends all jobs, and forgets them."""
    def ranks_end():
        for process, _, _ in live_ranks():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return not live_ranks()
    hosts.end_started()
    hosts.run("ash", "scancel", "--user=root")
    two_hosts.wait_for("all ranks end", ranks_end)
    hosts.wait_until_idle()
    shutil.rmtree(SCRATCH)
    SCRATCH.mkdir()


def run(check, hosts, attempts=3):
    """Runs a check, and again if MPI itself crashes. What does so each time is not MPI."""
    try:
        check(hosts)
    except CrashedInMpi as crash:
        if attempts == 1:
            raise
        print(f"{check.__name__} begins anew, since a rank crashed before strata said anything\n{crash}", flush=True)
        start_over(hosts)
        run(check, hosts, attempts - 1)


def write_failure(check, hosts):
    """Writes what there is to read of a check that failed into a file beside the program, and returns that."""
    logs = [file for pattern in ("*.log", "metrics.jsonl") for file in sorted(SCRATCH.rglob(pattern))]
    file = STRATA.parent / "test_cluster.log"
    file.write_text("".join([f"{check.__name__}\n{traceback.format_exc()}\n",
                             *(f"--- {log}\n{log.read_text(errors='replace')}\n" for log in logs), hosts.logs()]))
    return file


CHECKS = [gpus, starts, kill, throw, stop, cut]  # nothing comes after the cable is cut
ON_REQUEST = [time_limit]  # takes more than its limit, of which SLURM counts minutes


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
            run(check, hosts)
        except Exception:
            traceback.print_exc()
            sys.exit(f"FAILED: {check.__name__}; all logs are in {write_failure(check, hosts)}")
        print(f"passed: {check.__name__}, {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
