"""Two hosts with SLURM on one machine, for tests of what a cluster does to a job.

Each host has a name, a network and mounts of its own (Linux namespaces), and a cable joins the two. munged and slurmd
run on both, slurmctld on the first. All of it lives in namespaces of one process: when that goes, however it goes, so
do the hosts, their processes, the cable, and the file system in memory that holds what they write. Otherwise hosts see
the files of the machine. Root is needed; nothing of the machine is changed.
"""

import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

ADDRESSES = {"ash": "10.77.0.1", "birch": "10.77.0.2"}
CABLE = "cable"  # the name of either end
STATE = Path("/run")  # the file system in memory, in the namespaces alone
NAMESPACES = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
PACKAGES = {"unshare": "util-linux", "ip": "iproute2", "munged": "munge", "slurmctld": "slurm-wlm",
            "slurmd": "slurm-wlm", "srun": "slurm-wlm", "mpirun": "openmpi-bin"}

# A host says that it has more cores than the machine, so that jobs run side by side. A job that is requeued starts
# again when credentials have expired, after two minutes by default. SLURM's other limits are so long that a busy
# machine reaches none. KillWait is what a rank has to end, and what srun waits for a host that does not answer.
SLURM_CONF = f"""
ClusterName=woods
SlurmctldHost=ash
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=30
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=30
MessageTimeout=60
TCPTimeout=30
BatchStartTimeout=600
UnkillableStepTimeout=600
SlurmdTimeout=0
MailProg=/bin/true
StateSaveLocation={STATE}/slurmctld
SlurmctldPidFile={STATE}/slurmctld.pid
SlurmctldLogFile={STATE}/slurmctld.log
SlurmdSpoolDir={STATE}/%n/slurmd
SlurmdPidFile={STATE}/%n/slurmd.pid
SlurmdLogFile={STATE}/%n/slurmd.log
TmpFS={STATE}/%n/tmp
SlurmdParameters=config_overrides
NodeName={",".join(ADDRESSES)} CPUs=16 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""

# What mpirun starts its daemon on another host with, in place of ssh.
REMOTE_SHELL = f"""#!/bin/sh
host=$1
shift
exec nsenter --target "$(cat {STATE}/$host/pid)" --net --uts --mount sh -c "$*"
"""


def why_not():
    """Returns why there can be no such hosts here, or nothing."""
    for program, package in PACKAGES.items():
        if shutil.which(program) is None:
            return f"there is no {program} (apt-get install {package})"
    if os.geteuid() != 0:
        return "only root may make hosts"
    tried = subprocess.run([*NAMESPACES, "ip", "link", "add", CABLE, "type", "veth", "peer", "name", "other"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return f"this machine does not allow namespaces ({tried.stderr.strip()})" if tried.returncode else ""


def enter_namespaces():
    """Replaces this process by the same program in namespaces of its own, unless it is in them."""
    if os.environ.get("STRATA_TEST_NAMESPACES") != "1":
        os.environ["STRATA_TEST_NAMESPACES"] = "1"
        os.execvp(NAMESPACES[0], [*NAMESPACES, sys.executable, *sys.argv])


HANGS_S = 1200  # only what hangs takes as long, on any machine


def wait_for(what, condition):
    """Returns what `condition` returns as soon as it is true."""
    end = time.monotonic() + HANGS_S
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)  # conditions read many files, or start a program of SLURM's
    raise TimeoutError(f"after {HANGS_S} s still not: {what}")


class TwoHosts:
    """The hosts `ash` and `birch`. Make one in a process that has entered namespaces."""

    def __init__(self):
        subprocess.run(["mount", "-t", "tmpfs", "none", STATE], check=True)
        (STATE / "munge.key").touch(mode=0o600)
        (STATE / "munge.key").write_bytes(secrets.token_bytes(128))
        (STATE / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {h}\n" for h, a in ADDRESSES.items()))
        (STATE / "slurm.conf").write_text(SLURM_CONF)
        (STATE / "remote_shell").write_text(REMOTE_SHELL)
        (STATE / "remote_shell").chmod(0o755)
        (STATE / "tmp").mkdir()
        # mpirun has ranks that wait give way to others where there are fewer cores than ranks; srun has to be told.
        os.environ |= {"SLURM_CONF": str(STATE / "slurm.conf"), "TMPDIR": str(STATE / "tmp"),
                       "OMPI_MCA_mpi_yield_when_idle": "1"}
        self._started = []
        self._init = {host: self._start_host(host) for host in ADDRESSES}
        self._lay_cable()
        self._start_slurm()

    @staticmethod
    def _start_host(host):
        """Returns the process in whose namespaces the host lives, once they are there."""
        for folder in ("slurmd", "tmp", "munge"):
            (STATE / host / folder).mkdir(parents=True)
        (STATE / "munge").mkdir(exist_ok=True)
        begin = (f"hostname {host} && mount --bind {STATE}/hosts /etc/hosts && "
                 f"mount --bind {STATE}/{host}/munge {STATE}/munge && ip link set lo up && "
                 f"echo $$ > {STATE}/{host}/starting && mv {STATE}/{host}/starting {STATE}/{host}/pid && "
                 "exec sleep infinity")
        process = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", begin])
        wait_for(f"host {host}", (STATE / host / "pid").exists)
        return process

    def _lay_cable(self):
        one, other = (str(process.pid) for process in self._init.values())
        subprocess.run(["ip", "link", "add", CABLE, "netns", one, "type", "veth", "peer", "name", CABLE,
                        "netns", other], check=True)
        for host, address in ADDRESSES.items():
            self.run(host, "ip", "address", "add", f"{address}/24", "dev", CABLE)
            self.run(host, "ip", "link", "set", CABLE, "up")

    def _start_slurm(self):
        for host in ADDRESSES:
            self.run(host, "munged", "--force", f"--key-file={STATE}/munge.key",
                     f"--socket={STATE}/munge/munge.socket.2", f"--pid-file={STATE}/munge/pid",
                     f"--log-file={STATE}/munge/log", f"--seed-file={STATE}/munge/seed")
        (STATE / "slurmctld").mkdir()
        self.run("ash", "slurmctld")
        for host in ADDRESSES:
            self.run(host, "slurmd", "-N", host)
        self.wait_until_idle()

    def _command(self, host, *command, folder="/"):
        return ["nsenter", "--target", str(self._init[host].pid), "--net", "--uts", "--mount",
                "env", f"--chdir={folder}", *map(str, command)]

    def run(self, host, *command, folder="/", errors=None):
        """Runs a command on a host, in a folder, and returns what it says. Raises CalledProcessError if it fails."""
        return subprocess.run(self._command(host, *command, folder=folder), check=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=errors, text=True).stdout

    def start(self, host, *command, log):
        """Starts a command on a host, with its output in the file `log`."""
        with open(log, "ab") as output:
            process = subprocess.Popen(self._command(host, *command), stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT)
        self._started.append(process)
        return process

    def end_started(self):
        """Ends what was started, but for what that has started on other hosts."""
        for process in self._started:
            process.kill()
            process.wait()
        self._started.clear()

    def pull_cable(self):
        self.run("birch", "ip", "link", "set", CABLE, "down")

    def wait_until_idle(self):
        """Waits until SLURM has both hosts and no job on them."""
        states = ["sinfo", "--noheader", "--format=%T", "--Node"]
        wait_for("SLURM's hosts are idle", lambda: self.run("ash", *states).split() == ["idle"] * len(ADDRESSES))

    @staticmethod
    def logs():
        """Returns what SLURM's daemons have logged."""
        return "".join(f"--- {log}\n{log.read_text()}\n"
                       for log in [STATE / "slurmctld.log", *STATE.glob("*/slurmd.log")])
