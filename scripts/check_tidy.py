#!/usr/bin/env python3
"""Runs clang-tidy on the sources that differ from a commit, and for a header that differs on one source that
includes it. It takes seconds a file: what the time does not reach is named, and is no failure.

  scripts/check_tidy.py [--all] [--seconds N]   --all: every source; no file is begun after N seconds
  scripts/check_tidy.py --self-test             checks how sources are chosen

Needs build/cpu-debug configured, from whose compile commands it takes the flags; sources of the CUDA
backend are not in there. It compares with where this branch left main; on main itself, or without it, with
the commit before. A clone that has no commit before (depth 1) is looked at whole, as far as time allows.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/cpu-debug"
TIDY = os.environ.get("CLANG_TIDY", "clang-tidy")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def git(*arguments):
    """The lines that git prints, or None if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def base_commit():
    head = git("rev-parse", "HEAD")
    for branch in ("origin/main", "main"):
        base = git("merge-base", "HEAD", branch)
        if base and base != head:
            return base[0]
    before = git("rev-parse", "--verify", "--quiet", "HEAD~1")
    return before[0] if before else None


def chosen(changed, texts):
    """The sources to look at, of `texts` {path: text}: changed ones first, then one for each header."""
    found = [path for path in changed if path in texts]
    for header in (p for p in changed if p.endswith(".h")):
        users = [path for path, text in texts.items()
                 if any(header.endswith("/" + name) for name in INCLUDE.findall(text))]
        users.sort(key=lambda p: (p not in found, Path(p).stem != Path(header).stem, p))
        found += [p for p in users[:1] if p not in found]
    return found


def check(paths, seconds):
    begin = time.monotonic()

    def run(path):
        if time.monotonic() - begin > seconds:
            return path, None
        return path, subprocess.run([TIDY, "-p", BUILD, "--quiet", path], cwd=ROOT,
                                    capture_output=True, text=True)

    late, failed = [], []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, done in pool.map(run, paths):
            if done is None:
                late.append(path)
            elif done.returncode != 0:
                failed.append(path)
                print(done.stdout or done.stderr)
    print(f"tidy: {len(paths) - len(late)} sources looked at, {len(failed)} with warnings")
    if late:
        print(f"tidy: no time for {len(late)}: " + " ".join(late))
    return 1 if failed else 0


def self_test():
    texts = {"src/a/x.cpp": '#include "strata/a/x.h"\n', "src/a/y.cpp": '#include "strata/a/x.h"\n',
             "src/b/z.cpp": '#include "strata/a/x.h"\n# include "b/z.h"\n'}
    cases = [(["src/a/y.cpp", "README.md"], ["src/a/y.cpp"]),
             (["include/strata/a/x.h"], ["src/a/x.cpp"]),
             (["include/strata/a/x.h", "src/b/z.cpp"], ["src/b/z.cpp"]),  # looks at both
             (["src/b/z.h"], ["src/b/z.cpp"]),
             (["src/b/z.cpp", "src/gone.cpp"], ["src/b/z.cpp"]),
             (["include/strata/a/unused.h"], [])]
    wrong = [f"{c}: found {chosen(c, texts)}" for c, wanted in cases if chosen(c, texts) != wanted]
    print("\n".join(wrong) if wrong else f"tidy: self-test passed, {len(cases)} cases")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    files = {os.path.relpath(c["file"], ROOT) for c in commands}
    texts = {f: (ROOT / f).read_text() for f in git("ls-files", "*.cpp") if f in files}
    base = None if arguments.all else base_commit()
    # New files that are not added yet are no part of the difference.
    changed = sorted(texts) if base is None else git("diff", "--name-only", base)
    print(f"tidy: compared with {base or 'nothing: every source'}")
    return check(chosen(changed, texts), arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
