#!/usr/bin/env python3
"""Checks the pages: those at the top, such as README.md, and everything in docs/.

Every relative link and anchor resolves, every page is linked by another one, prose lines have at most
120 columns, and pages that sources name exist. Tables may be wider; a line of a code block may be too if
there is no space to break it at. Pages that the program writes are not looked at. The version of
CMakeLists.txt is the newest that the changelog has a dated section of, and CITATION.cff names both.

  scripts/check_docs.py              checks the tree, one line per violation, exit code 1 if any
  scripts/check_docs.py --self-test  checks that violations are found
"""

import posixpath
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 120
PAGES_AT_THE_TOP = {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
GENERATED = {"docs/config.md"}  # `strata config-help --markdown`; may be linked before it is written
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"}

FENCE = re.compile(r" *(```|~~~)")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^ {0,3}\[[^\]]+\]:\s+(\S+)"
                  r"|<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)=\"([^\"]+)\"")
INLINE_CODE = re.compile(r"`[^`]*`")
ID = re.compile(r"<[^>]*\bid=\"([^\"]+)\"")
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//")
NEWEST_VERSION = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
NAMED_PAGE = re.compile(r"\bdocs/[\w/.-]+\.md\b")


class Page:
    """The lines of a page, by what they are."""

    def __init__(self, text):
        self.prose, self.code, self.anchors = [], [], set()  # (number, line); tables are in neither
        self.links = []  # (number, target)
        headings = {}
        in_code = False
        for number, line in enumerate(text.splitlines(), 1):
            if FENCE.match(line):
                in_code = not in_code
                continue
            if in_code:
                self.code.append((number, line))
                continue
            if not line.lstrip().startswith("|"):
                self.prose.append((number, line))
            self.anchors.update(ID.findall(line))
            if heading := re.match(r"#{1,6} +(.*?)(?: +#+)? *$", line):
                slug = slug_of(heading.group(1))
                seen = headings[slug] = headings.get(slug, -1) + 1
                self.anchors.add(f"{slug}-{seen}" if seen else slug)
            for match in LINK.finditer(INLINE_CODE.sub(lambda m: " " * len(m.group()), line)):
                self.links.append((number, next(g for g in match.groups() if g)))


def slug_of(heading):
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.replace("`", "").lower())
    return text.strip().replace(" ", "-")


def target_of(path, link):
    """The path in the repository that a link names, and its anchor or None."""
    name, _, anchor = link.partition("#")
    folder = posixpath.dirname(path)
    return posixpath.normpath(posixpath.join(folder, name)) if name else path, anchor or None


def can_be_broken(line):
    return " " in line[:COLUMNS].lstrip()


def check_lines(path, page):
    for number, line in page.prose:
        if len(line) > COLUMNS:
            yield f"{path}:{number}: {len(line)} columns, at most {COLUMNS}"
    for number, line in page.code:
        if len(line) > COLUMNS and can_be_broken(line):
            yield f"{path}:{number}: {len(line)} columns of code that can be broken"


def check_links(path, page, pages, exists):
    for number, link in page.links:
        if EXTERNAL.match(link):
            continue
        target, anchor = target_of(path, link)
        if target in GENERATED:
            continue
        if target not in pages and not exists(target):
            yield f"{path}:{number}: {link}: no such file"
        elif anchor and target in pages and anchor not in pages[target].anchors:
            yield f"{path}:{number}: {link}: no such heading"


def violations(texts, sources, exists):
    """`texts` and `sources` are {path: text}; `exists` knows the other files and folders."""
    pages = {path: Page(text) for path, text in texts.items() if path not in GENERATED}
    linked = {"README.md"}  # where readers begin
    for path, page in pages.items():
        yield from check_lines(path, page)
        yield from check_links(path, page, pages, exists)
        linked.update(target for _, link in page.links
                      for target in [target_of(path, link)[0]] if target != path)
    for path in pages:
        if path not in linked:
            yield f"{path}: no page links to it"
    for path, text in sources.items():
        for number, line in enumerate(text.splitlines(), 1):
            for name in NAMED_PAGE.findall(line):
                if name not in texts and name not in GENERATED:
                    yield f"{path}:{number}: names {name}, which does not exist"


def version_violations(changelog, cmake, citation):
    newest = NEWEST_VERSION.search(changelog)
    if not newest:
        yield "CHANGELOG.md: no section like '## 0.1.0 - 2026-01-31'"
        return
    version, date = newest.groups()
    if f"project(strata VERSION {version} " not in cmake:
        yield f"CMakeLists.txt: the project's version is not {version}, the newest of CHANGELOG.md"
    for line in (f"version: {version}", f"date-released: {date}"):
        if line not in citation.splitlines():
            yield f"CITATION.cff: has no line '{line}'"


def check_tree():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    files = [f for f in listed if f and (ROOT / f).is_file()]
    texts = {f: (ROOT / f).read_text() for f in files
             if f in PAGES_AT_THE_TOP or re.fullmatch(r"docs/.*\.md", f)}
    # This file names pages that do not exist, to test itself.
    sources = {f: (ROOT / f).read_text() for f in files
               if (Path(f).suffix in SOURCES or f == ".ci/run") and f != "scripts/check_docs.py"}
    if len(texts) < 10:
        sys.exit(f"check_docs: only {len(texts)} pages found; is this the repository?")
    found = list(violations(texts, sources, lambda p: (ROOT / p).exists()))
    found += version_violations(*((ROOT / f).read_text() for f in ("CHANGELOG.md", "CMakeLists.txt", "CITATION.cff")))
    print("\n".join(found) if found else f"docs: {len(texts)} pages in order")
    return 1 if found else 0


def self_test():
    good = {"README.md": "[a](docs/a.md) [b](docs/a.md#two-words) [f](docs/f.svg) [g](docs/config.md)\n",
            "docs/a.md": "# A\n## Two `words`!\n## Again\n## Again\n[up](../README.md) [b](m/b.md)\n"
                         "[here](#again-1) <a id=\"x\"></a> [there](#x) [out](https://example.org/none)\n"
                         "| " + "wide table " * 20 + "|\n"
                         "`[no](link)`\n```sh\n[no](link)\n" + "w" * 200 + "\n```\n",
            "docs/m/b.md": "word " * 20 + "[a](../a.md)\n",
            "docs/config.md": "wide " * 2000}
    sources = {"src/a.cpp": "/// docs/a.md says why, docs/config.md what.\n"}
    bad = [("docs/a.md", "[b](b.md)\n"),                       # a file that is elsewhere
           ("docs/a.md", "![b](figures/none.svg)\n"),
           ("docs/a.md", "<img src=\"none.svg\">\n"),
           ("docs/a.md", "[b]: none.md\n"),
           ("docs/a.md", "[b](../README.md#none)\n"),          # a heading
           ("docs/a.md", "[b](#again-2)\n"),
           ("docs/a.md", "word " * 24 + "w\n"),                # 121 columns
           ("docs/a.md", "- " + "w" * 119 + "\n"),
           ("docs/a.md", "```sh\nstrata " + "--set " * 20 + "\n```\n"),
           ("docs/orphan.md", "word\n"),
           ("src/b.cpp", "// see docs/none.md\n")]

    def found(extra=None):
        pages, code = dict(good), dict(sources)
        for path, text in [extra] if extra else []:
            into = code if path.startswith("src/") else pages
            into[path] = into.get(path, "") + text
        return list(violations(pages, code, {"docs/f.svg"}.__contains__))

    wrong = [f"refused: {v}" for v in found()]
    wrong += [f"not found once: {b}: {found(b)}" for b in bad if len(found(b)) != 1]
    released = ["## Unreleased\n\n## 1.2.0 - 2026-01-31\n\n## 1.1.0 - 2026-01-01\n",
                "project(strata VERSION 1.2.0 LANGUAGES CXX)\n", "version: 1.2.0\ndate-released: 2026-01-31\n"]
    for i, (old, new, count) in enumerate([("1.2.0", "1.3.0", 2), ("1.2.0", "1.2.1", 1), ("-31", "-30", 1)]):
        unlike = [text.replace(old, new) if j == i else text for j, text in enumerate(released)]
        if list(version_violations(*released)) or len(list(version_violations(*unlike))) != count:
            wrong.append(f"versions: {unlike}: {list(version_violations(*unlike))}")
    print("\n".join(wrong) if wrong else f"docs: self-test passed, {len(bad) + 3} violations found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else check_tree())
