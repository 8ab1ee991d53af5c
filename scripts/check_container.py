#!/usr/bin/env python3
"""Follows the recipes of containers without an engine: the steps of scripts/container/Dockerfile, in fresh roots of the
distribution that it begins with, made by mmdebstrap, under a mount namespace. strata.def must have the same steps.

  scripts/check_container.py           compares the two recipes
  scripts/check_container.py --use     also follows the stage that is shipped, with the .deb that build/cpu-release has,
                                       and runs README's quick start, of fewer steps, by the program that is installed
                                       there
  scripts/check_container.py --whole   likewise, of all steps, with the .deb that the stage before builds from a fresh
                                       root: minutes

Where no namespace can be made, mmdebstrap is missing, or the .deb is for another distribution, the recipes are only
compared, and it says so.
"""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "scripts/container/Dockerfile"
DEFINITION = ROOT / "scripts/container/strata.def"
BASES = {"debian:bookworm-slim": "bookworm"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# README's quick start by the program of the image, and ranks of the image's own MPI.
USE = """set -eu
{entry} --version
STEPS={steps} STRATA={entry} scripts/quickstart.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mpirun -np 2 --bind-to none {entry} train configs/tiny-cpu.json --set run.steps=5
for tool in c++ g++ gcc cmake; do if command -v "$tool"; then exit 1; fi; done
"""


class RecipeError(Exception):
    pass


@dataclass
class Stage:
    """One image: what it begins with, what is copied into it, and what is run there."""

    base: str
    copies: list = field(default_factory=list)  # (name of a stage or "", source, target)
    commands: list = field(default_factory=list)  # words of each
    entry: list = field(default_factory=list)  # words


def put_in(text, arguments, pattern):
    return re.sub(pattern, lambda m: arguments[m.group(1)], text)


def words_of(script):
    """The commands of a script, which && or ends of lines divide."""
    lines = re.split(r"\n|&&", script.replace("\\\n", " "))
    return [shlex.split(line) for line in lines if line.strip()]


def read_dockerfile(text):
    """The stages by name; the last one is ""."""
    stages, arguments, stage = {}, {}, None
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in re.sub(r"\\\n", " ", lines).splitlines():
        if not line.strip():
            continue
        word, rest = line.split(None, 1)
        rest = rest if word in ("ARG", "ENTRYPOINT") else put_in(rest, arguments, r"\$\{?(\w+)\}?")
        if word == "ARG":
            name, value = rest.split("=", 1)
            arguments[name] = value
        elif word == "FROM":
            base, *name = rest.split(" AS ")
            stage = stages[name[0].strip() if name else ""] = Stage(base.strip())
        elif word == "COPY":
            *origin, source, target = rest.split()
            stage.copies.append((origin[0].removeprefix("--from=") if origin else "", source, target))
        elif word == "RUN":
            stage.commands += words_of(rest)
        elif word == "ENTRYPOINT":
            stage.entry = json.loads(rest)
        elif word != "WORKDIR":  # where Docker starts; Apptainer starts where its user is
            raise RecipeError(f"Dockerfile: {word} is not known here")
    return stages


def read_definition(text):
    stages = {}
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    blocks = re.split(r"^Bootstrap: docker\n", lines, flags=re.M)
    for number, block in enumerate(blocks[1:], 2):
        head, *sections = re.split(r"^%", block, flags=re.M)
        fields = dict(line.split(": ", 1) for line in head.splitlines() if line)
        sections = {s.split("\n", 1)[0]: s.split("\n", 1)[1] for s in sections}
        arguments = dict(line.split("=", 1) for line in sections.pop("arguments", "").split())

        def given(part, values=arguments):
            return put_in(part, values, r"\{\{ (\w+) \}\}")

        stage = Stage(given(fields["From"]))
        for name, section in sections.items():
            if name.startswith("files"):
                origin = name.removeprefix("files").removeprefix(" from ")
                stage.copies += [(origin, *line.split()) for line in section.splitlines() if line.strip()]
            elif name == "post":
                stage.commands += words_of(given(section))
            elif name == "runscript":
                stage.entry = [w for w in shlex.split(section) if w not in ("exec", "$@")]
            else:
                raise RecipeError(f"strata.def: %{name} is not known here")
        stages["" if number == len(blocks) else fields["Stage"]] = stage
    return stages


def differences(one, other):
    if one.keys() != other.keys():
        yield f"the Dockerfile has the stages {list(one)}, strata.def {list(other)}"
        return
    for name in one:
        for key, value in vars(one[name]).items():
            if value != getattr(other[name], key):
                yield f"stage {name or 'that is shipped'}: {key} are {value} in the Dockerfile, and in strata.def " \
                      f"{getattr(other[name], key)}"


def fresh_root(base, root):
    """Unpacks the distribution, which is made once and kept below build/."""
    suite = BASES[base]
    archive = ROOT / "build" / ("minbase.tar" if suite == "bookworm" else f"minbase-{suite}.tar")
    if not archive.exists():
        made = archive.with_suffix(".tmp")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", suite, made], check=True)
        made.rename(archive)
    root.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", root, "--exclude", "./dev/*"], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    # apt's own user has no right to a folder of this process.
    (root / "etc/apt/apt.conf.d/sandbox").write_text('APT::Sandbox::User "root";\n')


NAMESPACE = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])


def inside(root, script):
    """Runs a script with `root` as the whole file system."""
    mounts = "".join(f'mount --rbind /{f} "$1/{f}"; ' for f in ("proc", "sys", "dev"))
    subprocess.run([*NAMESPACE, "sh", "-c", mounts + 'exec env -i PATH="$3" HOME=/root DEBIAN_FRONTEND=noninteractive '
                    'chroot "$1" sh -ec "$2"', "-", root, script, PATH], check=True)


def copy_context(target):
    """What `docker build` would send: everything but what .dockerignore names."""
    ignored = (ROOT / "scripts/container/Dockerfile.dockerignore").read_text().splitlines()
    names = [n for n in ignored if n and not n.startswith("#")]
    shutil.copytree(ROOT, target, symlinks=True, dirs_exist_ok=True,
                    ignore=lambda folder, found: [n for n in found if Path(folder) == ROOT and n in names])


def follow(stage, root, roots):
    print(f"\n== {stage.base} in {root}", flush=True)
    fresh_root(stage.base, root)
    for origin, source, target in stage.copies:
        to = root / target.lstrip("/")
        if not origin:
            copy_context(to)
        else:
            shutil.copytree(roots[origin] / source.lstrip("/"), to)
    for command in stage.commands:
        line = " ".join(word if "*" in word else shlex.quote(word) for word in command)
        print(f"+ {line}", flush=True)
        inside(root, line)


def use(root, entry, steps):
    subprocess.run([ROOT / "scripts/english_text.sh", ROOT / "data/english"], check=True)
    for name in ("configs", "scripts", "data/english"):
        shutil.copytree(ROOT / name, root / "work" / name)
    print("\n== the program of the image", flush=True)
    inside(root, "cd /work\n" + USE.format(entry=shlex.join(entry), steps=steps))


def packages_of_build(root):
    """Stands for the stage that builds: a folder with the .deb that is there."""
    found = sorted((ROOT / "build/cpu-release/packages").glob("*.deb"))
    if not found:
        raise RecipeError("build/cpu-release/packages has no .deb: run scripts/check_package.sh first")
    (root / "packages").mkdir(parents=True)
    shutil.copy(found[-1], root / "packages")
    return root


def obstacle(how, stages):
    """Why the steps cannot be followed here, or nothing."""
    if not shutil.which("mmdebstrap"):
        return "there is no mmdebstrap"
    if subprocess.run([*NAMESPACE, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        return "unshare --mount is refused"
    here = platform.freedesktop_os_release().get("VERSION_CODENAME")
    if how == "--use" and here != BASES[stages[""].base]:
        return f"the .deb is for {here}"
    return None


def main():
    how = sys.argv[1] if len(sys.argv) > 1 else ""
    if how not in ("", "--use", "--whole"):
        print("usage: scripts/check_container.py [--use|--whole]", file=sys.stderr)
        return 2
    stages = read_dockerfile(DOCKERFILE.read_text())
    wrong = list(differences(stages, read_definition(DEFINITION.read_text())))
    print("\n".join(wrong) or f"both recipes have the same {sum(len(s.commands) for s in stages.values())} commands")
    if wrong or not how:
        return 1 if wrong else 0
    if (reason := obstacle(how, stages)) is not None:
        print(f"skipped: {reason}, so the recipes were only compared")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        roots = {}
        for name, stage in stages.items():
            root = Path(scratch) / (name or "shipped")
            if how == "--use" and name:
                roots[name] = packages_of_build(root)
                continue
            follow(stage, root, roots)
            roots[name] = root
        use(roots[""], stages[""].entry, 250 if how == "--use" else "")
    print("the image trains")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RecipeError, subprocess.CalledProcessError) as error:
        sys.exit(f"check_container.py: {error}")
