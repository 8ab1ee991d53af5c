#!/usr/bin/env python3
"""Runs clang-tidy on the sources that a change touches, and for a header that it touches on one source that includes
it.

  scripts/check_tidy.py [--all] [--most N]   --all: every source; at most N of them (400), those that changed most first
  scripts/check_tidy.py --self-test          checks how sources are chosen

Needs build/cpu-debug configured, from whose compile commands it takes the flags, without the precompiled header: a
source has to include what it names. Sources of the CUDA backend are not in there. It compares with where this branch
left main. On main itself the change is what was committed in the eight hours before its last commit: a day's work,
whatever the number of commits. A clone that has no commit before (depth 1) is looked at whole.

A file that only moved, or has other comments and includes, is no part of the change.
A source that was found in order is not looked at again until it, a header of this tree that it includes, its command
or the rules change: ~/.cache/strata-tidy remembers. Sources that N leaves out are named; more than a fifth fail.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/cpu-debug"
COMMANDS = ROOT / "build/tidy"
TIDY = os.environ.get("CLANG_TIDY", "clang-tidy")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strata-tidy"
CHANGE_HOURS = 8      # on main: what belongs to one change
MOST_LEFT_OUT = 0.2   # of the sources that are not known to be in order
COMMENT = re.compile(r"//(?!.*NOLINT)[^\n]*|^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
PRECOMPILED = re.compile(r" -Winvalid-pch| -include \S+/cmake_pch\.hxx(?=\s)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def of_each_source(entry):
    """A compile command as one for each source: those that are compiled together (STRATA_UNITY) are judged alone."""
    if ".unity/" not in entry["file"]:
        return [entry]
    sources = [str(ROOT / name) for name in INCLUDE.findall(Path(entry["file"]).read_text())]
    return [entry | {"file": file, "command": entry["command"].replace(entry["file"], file)} for file in sources]


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
    return before_the_change([line.split() for line in git("log", "--first-parent", "--format=%H %ct")])


def most_changed_first(lines):
    """The paths of `git diff --numstat`, those with most changed lines first."""
    files = [line.split("\t") for line in lines]
    files.sort(key=lambda f: (-sum(int(n) for n in f[:2] if n.isdigit()), f[2]))
    return [f[2] for f in files]


def code_of(text):
    """What clang-tidy judges of a file: no comments, but those that are meant for it, no includes, no spaces."""
    return "".join(COMMENT.sub("", text).split())


def texts_at(commit):
    """The texts of all C++ files of a commit."""
    names = [f for f in git("ls-tree", "-r", "--name-only", commit) if f.endswith((".h", ".cpp"))]
    batch = subprocess.run(["git", "cat-file", "--batch"], cwd=ROOT, capture_output=True, check=True,
                           input="".join(f"{commit}:{name}\n" for name in names).encode()).stdout
    at = 0
    for _ in names:
        end = batch.index(b"\n", at)
        size = int(batch[at:end].split()[-1])
        yield batch[end + 1 : end + 1 + size].decode(errors="replace")
        at = end + 1 + size + 1


def with_other_code(paths, known):
    """Those of {path: text} whose code none of the known texts has."""
    known = {code_of(text) for text in known}
    return [path for path, text in paths.items() if code_of(text) not in known]


def before_the_change(commits):
    """The newest of the commits, (id, seconds) from HEAD on, that is no part of HEAD's change; None if all are."""
    begin = int(commits[0][1]) - CHANGE_HOURS * 3600
    return next((commit for commit, seconds in commits[1:] if int(seconds) < begin), None)


def chosen(changed, texts):
    """The sources to look at, of `texts` {path: text}: changed ones first, then one for each file that is included."""
    found = [path for path in changed if path in texts]
    for part in (p for p in changed if p not in texts and p.endswith((".h", ".cpp"))):
        users = [path for path, text in texts.items()
                 if any(part.endswith("/" + name) for name in INCLUDE.findall(text))]
        users.sort(key=lambda p: (p not in found, Path(p).stem != Path(part).stem, p))
        found += [p for p in users[:1] if p not in found]
    return found


def included(path, known):
    """The file and what it includes of this tree, in a fixed order. `known` has what was read."""
    found, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if file not in known:
            known[file] = (ROOT / file).read_text(errors="replace")
        for name in INCLUDE.findall(known[file]):
            folders = (str(Path(file).parent), "include", "src", "tests", ".")
            paths = (os.path.normpath(os.path.join(folder, name)) for folder in folders)
            waiting += [p for p in paths if p in known or (ROOT / p).is_file()][:1]
    return sorted(found)


def key_of(path, command, rules, known):
    """What the verdict on a source depends on, as a name for a file."""
    digest = hashlib.sha256(rules.encode())
    digest.update(command.replace(str(ROOT), ".").encode())
    for file in included(path, known):
        digest.update(f"\n{file}\n{known[file]}".encode())
    return digest.hexdigest()


def check(paths, commands, most):
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    rules, known = version + (ROOT / ".clang-tidy").read_text(), {}
    keys = {path: CACHE / key_of(path, commands[path], rules, known) for path in paths}
    new = [path for path in paths if not keys[path].exists()]
    left_out = new[most:]

    def run(path):
        return path, subprocess.run([TIDY, "-p", COMMANDS, "--quiet", path], cwd=ROOT, capture_output=True, text=True)

    CACHE.mkdir(parents=True, exist_ok=True)
    failed = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, done in pool.map(run, new[:most]):
            if done.returncode == 0:
                keys[path].touch()
            else:
                failed.append(path)
                print(done.stdout or done.stderr)
    print(f"tidy: {len(paths)} sources, {len(paths) - len(new)} of them known to be in order; looked at "
          f"{len(new) - len(left_out)}, {len(failed)} with warnings; {len(left_out)} left out")
    if left_out:
        print("tidy: left out: " + " ".join(left_out))
    if len(left_out) > MOST_LEFT_OUT * len(new):
        print("tidy: too many were left out; run scripts/check_tidy.py --all --most 10000")
        return 1
    return 1 if failed else 0


def self_test():
    texts = {"src/a/x.cpp": '#include "strata/a/x.h"\n', "src/a/y.cpp": '#include "strata/a/x.h"\n',
             "src/b/z.cpp": '#include "strata/a/x.h"\n# include "b/z.h"\n#include "b/part.cpp"\n'}
    cases = [(["src/a/y.cpp", "README.md"], ["src/a/y.cpp"]),
             (["include/strata/a/x.h"], ["src/a/x.cpp"]),
             (["include/strata/a/x.h", "src/b/z.cpp"], ["src/b/z.cpp"]),  # looks at both
             (["src/b/z.h"], ["src/b/z.cpp"]),
             (["src/b/part.cpp"], ["src/b/z.cpp"]),
             (["src/b/z.cpp", "src/gone.cpp"], ["src/b/z.cpp"]),
             (["include/strata/a/unused.h"], [])]
    wrong = [f"{c}: found {chosen(c, texts)}" for c, wanted in cases if chosen(c, texts) != wanted]
    moved = {"src/b/x.cpp": '#include "b/x.h"\nint x;  // one\n', "src/b/y.cpp": "int y;  // NOLINT\n"}
    if (others := with_other_code(moved, ['#include "a/x.h"\n// Two.\nint  x;\n', "int y;\n"])) != ["src/b/y.cpp"]:
        wrong.append(f"other code: {others}")
    hour = 3600
    for commits, wanted in [([("c", 99 * hour), ("b", 98 * hour), ("a", 90 * hour)], "a"),
                            ([("c", 99 * hour), ("b", 92 * hour), ("a", 91 * hour)], None),
                            ([("c", 99 * hour)], None)]:
        if before_the_change(commits) != wanted:
            wrong.append(f"{commits}: found {before_the_change(commits)}")
    print("\n".join(wrong) if wrong else f"tidy: self-test passed, {len(cases) + 4} cases")
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--most", type=int, default=400)
    arguments = parser.parse_args()
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    entries = [alone for entry in entries for alone in of_each_source(entry)]
    for entry in entries:
        entry["command"] = PRECOMPILED.sub("", entry["command"])
    COMMANDS.mkdir(exist_ok=True)
    (COMMANDS / "compile_commands.json").write_text(json.dumps(entries))
    commands = {os.path.relpath(c["file"], ROOT): c["command"] for c in entries}
    texts = {f: (ROOT / f).read_text() for f in git("ls-files", "*.cpp") if f in commands}
    base = None if arguments.all else base_commit()
    # New files that are not added yet are no part of the difference.
    changed = sorted(texts)
    if base is not None:
        names = most_changed_first(git("diff", "--numstat", "--no-renames", base))
        files = {f: (ROOT / f).read_text() for f in names if f.endswith((".h", ".cpp")) and (ROOT / f).is_file()}
        changed = with_other_code(files, texts_at(base))
    print(f"tidy: compared with {base or 'nothing: every source'}")
    return check(chosen(changed, texts), commands, arguments.most)


if __name__ == "__main__":
    sys.exit(main())
