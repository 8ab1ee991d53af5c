#!/usr/bin/env python3
"""Checks that every #include respects the layers of docs/architecture.md.

A file includes its own layer and lower ones, never upwards and never sideways; backends are included by
nobody outside of them; vendor headers stay in their rooms; no #ifdef picks a backend. Tests name nothing of
Catch2's own namespace, which differs between its versions: tests/support/catch.h does. A test of a layer
reaches, through helpers too, what the layer itself may include, the backends, and what TESTS_ALSO lists.
No two files define types of one name: the linker would keep the functions of only one of them. Nor do sources of a
folder define names of one unnamed namespace twice: they may be compiled together (STRATA_UNITY), and a function would
be taken for that of another source.

  scripts/check_layers.py              checks the tree, one line per violation, exit code 1 if any
  scripts/check_layers.py --self-test  checks that violations are found
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "kernels", "tests", "scripts")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

RANK = {"base": 1, "benchmark": 2, "chat": 2, "device": 2, "report": 2, "tokenizer": 2, "ops": 3, "comm": 3, "data": 3, "model": 4, "op_checks": 4, "store": 5,
        "optimizer": 6, "checkpoint": 7, "schedule": 8, "engine": 9, "config": 10, "launch": 11, "predict": 11,
        "runfiles": 11, "plan": 12, "complete": 13, "train": 14, "doctor": 15, "commands": 16, "command_line": 17,
        "main": 18}

# Implementations of the abstract machine: what belongs to each, and the layers that it may include.
BACKENDS = {"cpu": ("src/device/cpu/", "kernels/cpu/"),
            "cuda": ("src/device/cuda/", "kernels/cuda/"),
            "dry": ("src/device/dry/",),
            "backend choice": ("src/device/backend/",)}
CHOICE = ("backend", "backend choice")
BELOW_BACKENDS = {"base", "device", "ops"}

# The layers that tests of a layer reach beside it and lower ones. Folders of tests that are no layer's (golden, bench,
# fuzz, e2e) test the whole program and reach all of it.
TESTS_ALSO = {"device": {"ops"},                 # make_backend makes devices together with their operators
              "comm": {"ops"},                   # likewise, GPUs that ranks talk through
              "ops": {"op_checks"},              # whose checks run every operator
              "store": {"engine"},               # which makes the table of blocks that stores read
              "checkpoint": {"engine"},          # likewise: the state that is saved has homes by that table
              "optimizer": {"schedule", "engine", "config", "predict", "plan"},  # plan lays out the whole
              "schedule": {"engine", "config", "predict", "plan"},               # steps: tests/support/tiny_engine.h
              "predict": {"plan"}}               # which makes what is predicted

JSON_FILES = (r"include/strata/base/json\.h|src/base/(fields_(json|schema)\.cpp|(assignment|field_values_json|file_sources_json)\.(h|cpp))|src/data/(record_reader|foreign_record|conversation_encoder|parquet_stream)\.cpp|src/device/trace_chrome\.cpp|src/checkpoint/"
              r"|src/benchmark/|src/chat/|src/report/|src/tokenizer/|src/model/(safetensors_|hugging_face_)|src/complete/((completion|completion_file|prompts|scored_records)\.cpp|json_record\.h)|src/(runfiles/metrics|train/run_samples)\.cpp|src/commands/((bench_(command|generation|json|results)|doctor_command|evaluate_records|evaluate_reference|evaluate_windows|inspect_command|inspect_step|inspect_tokens)\.cpp|(evaluations|bench_json|bench_results|plan_json)\.h)|tests/")
ROOMS = [  # (header, files that may include it)
    (r"(cuda|cublas|cudnn|curand|nvtx|nvml).*", r"src/device/cuda/|kernels/cuda/|tests/.*cuda|tests/bench/"),
    (r"nccl\.h", r"src/comm/nccl_|tests/comm/nccl_"),
    (r"mpi\.h", r"src/comm/mpi_"),
    (r"CLI/.*", r"src/command_line/"),
    (r"nlohmann/.*", JSON_FILES),
    (r"spdlog/.*", r"src/base/log\.cpp|tests/support/(catch_main\.cpp|logger_before\.cpp)"),
    (r"fmt/.*", r"include/strata/base/log\.h|src/commands/.*"),
    (r"xxhash\.h", r"src/checkpoint/xxh3\.cpp"),
    (r"(arrow|parquet)/.*", r"src/data/parquet_module\.cpp"),
    (r"catch2/.*", r"tests/support/"),
    (r".*mmintrin\.h", r"kernels/cpu/simd/"),
]

NAMESPACE = re.compile(r"(?:inline )?namespace ([\w:]*) ?\{$")
TYPE = re.compile(r"(?:enum class|enum|struct|class|union) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: :.*|)(?: \{.*)$")
LOCAL_NAME = re.compile(r"(?:enum class|enum|struct|class|namespace|using) (?:\w+::)*(\w+)|"
                        r"(?:\[\[\w+\]\] )?\w[\w:<>,&* ]*?[ *&](\w+)(?:\(|\[|\{| = |;)")
CATCH_NAME = re.compile(r"\bCatch::")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
BACKEND_SWITCH = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif)\b.*(STRATA_(CUDA|MPI|NCCL|CUDNN)\b|(HAVE|USE|WITH)_)")


def part_of(path):
    """("backend", name), ("layer", name), or None for tests (see TestReach) and scripts."""
    for name, prefixes in BACKENDS.items():
        if path.startswith(prefixes):
            return ("backend", name)
    if path == "src/main.cpp":
        return ("layer", "main")
    match = re.match(r"(?:include/strata|src)/([^/]+)/", path)
    return ("layer", match.group(1)) if match else None


def resolve(path, header, exists):
    """The repository's file that a quoted include names."""
    folder = path.rsplit("/", 1)[0]
    for prefix in (folder + "/", "include/", "src/", "tests/", ""):
        if exists(prefix + header):
            return prefix + header
    return None


def may_include(path, target):
    source, wanted = part_of(path), part_of(target)
    if source is None or source == wanted:
        return not (path.startswith("include/") and target.startswith("src/"))
    if wanted is None or wanted[0] == "backend":
        return wanted is not None and source == CHOICE  # whoever chooses between backends knows them
    if source[0] == "backend":
        return wanted[1] in BELOW_BACKENDS
    private = target.startswith("src/")
    return not private and RANK.get(wanted[1], 99) < RANK.get(source[1], 0)


class TestReach:
    """What a file below tests/ reaches through the helpers there that it includes."""

    def __init__(self, read):
        self.read = read  # the text of a file, or None if there is none
        self.known = {}

    def of(self, path):
        """{(layer, file that is reached, helper that includes it)}, headers of layers and private ones alike."""
        if path not in self.known:
            self.known[path] = set()  # ends circles
            found = set()
            for part in (path, re.sub(r"\.h$", ".cpp", path)):  # a helper's source is linked with it
                for line in (self.read(part) or "").splitlines():
                    match = INCLUDE.match(line)
                    target = match and match[1] == '"' and resolve(part, match[2], lambda p: self.read(p) is not None)
                    if not target:
                        continue
                    if target.startswith("tests/"):
                        found |= self.of(target) if target != path else set()
                    elif (part_of(target) or ("",))[0] == "layer":
                        found.add((part_of(target)[1], target, part))
            self.known[path] = found
        return self.known[path]

    def violations(self, path):
        match = re.match(r"tests/([^/]+)/.*", path)
        layer = match and match[1]
        if layer not in RANK:
            return
        for reached, header, helper in sorted(self.of(path)):
            lower = RANK.get(reached, 99) < RANK[layer]
            if reached != layer and not lower and reached not in TESTS_ALSO.get(layer, ()):
                through = "" if helper == path else f" through {helper}"
                yield f"{path}: a test of {layer} may not include {header}{through} (see TESTS_ALSO)"


def violations(path, text, exists):
    for number, line in enumerate(text.splitlines(), 1):
        if BACKEND_SWITCH.match(line):
            yield f"{path}:{number}: backends are chosen by CMake, not by the preprocessor"
        if path.startswith("tests/") and not path.startswith("tests/support/") and CATCH_NAME.search(line):
            yield f"{path}:{number}: names of Catch2 that differ between its versions belong in tests/support/catch.h"
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        if quote == '"':
            target = resolve(path, header, exists)
            if target is None:
                yield f'{path}:{number}: "{header}" is no file of this repository'
            elif not may_include(path, target):
                yield f"{path}:{number}: may not include {target} (see docs/architecture.md)"
        for pattern, room in ROOMS:
            if re.fullmatch(pattern, header.rsplit("/", 1)[-1] if "/" not in pattern else header):
                if not re.match(room, path):
                    yield f"{path}:{number}: <{header}> belongs to {room}"


def types_of(text):
    """The qualified names of the types that a file defines, but for those of unnamed namespaces and within others."""
    open_namespaces, names = [], set()
    for line in text.splitlines():
        if match := NAMESPACE.match(line):
            open_namespaces.append(match[1])
        elif line.startswith("}  // namespace"):
            open_namespaces.pop()
        elif (match := TYPE.match(line)) and "" not in open_namespaces:
            names.add("::".join([*open_namespaces, match[1]]))
    return names


def defined_twice(sources):
    """Violations in {file: text}. A source of tests is part of one program, of which no other is."""
    first = {}
    for path, text in sorted(sources.items()):
        if path.startswith("tests/") and not path.endswith(".h"):
            continue
        for name in types_of(text):
            if first.setdefault(name, path) != path:
                yield f"{path}: {name} is also defined in {first[name]}"


def local_names(text):
    """{name: line that defines it} of unnamed namespaces. Lines of other text begin with a space or a brace."""
    found, local = {}, False
    for line in text.splitlines():
        if line in ("namespace {", "}  // namespace"):
            local = line == "namespace {"
        elif local and (match := LOCAL_NAME.match(re.sub(r"<[^()]*>", "", line))):
            found.setdefault(match[1] or match[2], line)
    return found


def local_twice(sources):
    """Violations in {file: text}. Two files may give one thing the same short name."""
    first = {}
    for path, text in sorted(sources.items()):
        if not re.match(r"(src|tests)/.*\.cpp$", path) or path.startswith("tests/bench/"):
            continue
        for name, line in local_names(text).items():
            before, known = first.setdefault((path.rsplit("/", 1)[0], name), (path, line))
            if before != path and not (line == known and re.match("using|namespace", line)):
                yield f"{path}: {name} is also a local name of {before}"


def check_tree():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *FOLDERS], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    files = [f for f in listed if Path(f).suffix in SUFFIXES and (ROOT / f).exists()]
    if len(files) < 50:
        sys.exit(f"check_layers: only {len(files)} source files found; is this the repository?")
    texts = {f: (ROOT / f).read_text() for f in files}
    found = [v for f in files for v in violations(f, texts[f], lambda p: (ROOT / p).is_file())]
    found += defined_twice(texts)
    found += local_twice(texts)
    reach = TestReach(lambda p: (ROOT / p).read_text() if (ROOT / p).is_file() else None)
    found += [v for f in files for v in reach.violations(f)]
    print("\n".join(found) if found else f"layers: {len(files)} files in order")
    return 1 if found else 0


def self_test():
    headers = {"include/strata/base/error.h", "include/strata/device/stream.h", "include/strata/ops/norm.h",
               "include/strata/comm/ranks.h", "include/strata/data/batch.h",
               "include/strata/store/training_state.h", "include/strata/config/config.h", "include/strata/plan/setup.h", "src/comm/launcher.h",
               "src/device/cuda/check.h", "kernels/cpu/operators.h", "tests/support/catch.h"}
    good = [("src/store/training_state.cpp", '#include "strata/base/error.h"'),
            ("src/store/training_state.cpp", '#include "strata/store/training_state.h"'),
            ("kernels/cuda/rows/norm.cu", '#include "strata/ops/norm.h"'),
            ("kernels/cuda/rows/norm.cu", '#include "src/device/cuda/check.h"'),
            ("kernels/cuda/rows/norm.cu", "#include <cuda_bf16.h>"),
            ("src/comm/mpi_ranks.cpp", "#include <mpi.h>"),
            ("src/comm/world_ranks.cpp", '#include "comm/launcher.h"'),
            ("src/command_line/run_commands.cpp", "#include <CLI/CLI.hpp>"),
            ("tests/store/training_state_test.cpp", '#include "strata/config/config.h"'),
            ("tests/support/catch_main.cpp", "Catch::Session session;"),
            ("src/device/backend/gpu_code.cpp", '#include "src/device/cuda/check.h"'),
            ("kernels/cpu/simd/vector.h", "#if defined(__AVX2__)")]
    bad = [("src/device/stream.cpp", '#include "strata/store/training_state.h"'),          # up
           ("include/strata/base/error.h", '#include "strata/device/stream.h"'),       # up
           ("src/data/batch.cpp", '#include "strata/ops/norm.h"'),                     # sideways
           ("src/comm/collectives.cpp", '#include "strata/data/batch.h"'),              # sideways
           ("src/config/config_rules.cpp", '#include "strata/plan/setup.h"'),            # up
           ("src/report/read_run.cpp", '#include "strata/device/stream.h"'),            # sideways
           ("src/train/session.cpp", '#include "comm/launcher.h"'),                    # private
           ("include/strata/comm/ranks.h", '#include "comm/launcher.h"'),       # private
           ("src/ops/norm.cpp", '#include "kernels/cpu/operators.h"'),                 # backend
           ("kernels/cpu/norm.cpp", '#include "src/device/cuda/check.h"'),             # other backend
           ("kernels/cpu/norm.cpp", '#include "strata/comm/ranks.h"'),          # backend, up
           ("src/store/training_state.cpp", '#include "support/catch.h"'),                 # test support
           ("src/store/training_state.cpp", '#include "strata/store/missing.h"'),          # no such file
           ("src/store/training_state.cpp", "#include <cuda_runtime.h>"),
           ("src/device/stream.cpp", "  #  include <cublasLt.h>"),
           ("src/comm/ranks.cpp", "#include <mpi.h>"),
           ("src/comm/mpi_ranks.cpp", "#include <nccl.h>"),
           ("src/commands/train_command.cpp", "#include <CLI/CLI.hpp>"),
           ("src/store/training_state.cpp", "#include <nlohmann/json.hpp>"),
           ("src/checkpoint/manifest.cpp", "#include <xxhash.h>"),
           ("src/data/parquet_stream.cpp", "#include <arrow/api.h>"),
           ("tests/data/packed_tokens_test.cpp", 'Catch::Contains("data.packing")'),
           ("src/device/device.cpp", "#ifdef STRATA_CUDA"),
           ("src/comm/ranks.cpp", "#if defined(HAVE_MPI)")]
    wrong = [f"refused: {c}" for c in good if list(violations(*c, headers.__contains__))]
    wrong += [f"not found: {c}" for c in bad if len(list(violations(*c, headers.__contains__))) != 1]
    tests = {"include/strata/base/error.h": "", "include/strata/store/loss_store.h": "", "include/strata/plan/setup.h": "",
             "include/strata/train/session.h": "", "src/device/cpu/cpu_device.h": "",
             "tests/support/config.h": '#include "strata/plan/setup.h"',
             "tests/support/engine.h": '#include "support/config.h"',
             "tests/support/whole.h": "", "tests/support/whole.cpp": '#include "strata/train/session.h"',
             "tests/base/good_test.cpp": '#include "strata/base/error.h"',
             "tests/comm/good_test.cpp": '#include "device/cpu/cpu_device.h"',
             "tests/schedule/good_test.cpp": '#include "strata/store/loss_store.h"\n#include "support/engine.h"',
             "tests/train/good_test.cpp": '#include "support/whole.h"',
             "tests/e2e/good_test.cpp": '#include "support/whole.h"',
             "tests/base/up_test.cpp": '#include "strata/store/loss_store.h"',
             "tests/data/sideways_test.cpp": '#include "strata/comm/ranks.h"',
             "include/strata/comm/ranks.h": "",
             "tests/model/helper_test.cpp": '#include "support/engine.h"',
             "tests/schedule/source_test.cpp": '#include "support/whole.h"'}
    reach = TestReach(tests.get)
    for test in tests:
        found = len(list(reach.violations(test)))
        expected = 0 if "good" in test or not test.endswith("_test.cpp") else 1
        if found != expected:
            wrong.append(f"{found} instead of {expected} violations: {test}")
        bad += [test] * expected
    types = {"src/a/one.h": "namespace strata {\nstruct One {\n};\nclass Two;\nstruct Two::Data {\n};\n}  // namespace strata",
             "src/b/one.cpp": "namespace strata {\nnamespace {\nstruct One {\n};\n}  // namespace\nclass Two {\n};\n"
                              "enum class Three : int { kA };\n}  // namespace strata",
             "tests/b/one_test.cpp": "namespace strata {\nclass Two {\n};\n}  // namespace strata"}
    if found := list(defined_twice(types)):
        wrong.append(f"refused: {found}")
    for twice in ("struct One {\n};", "class Two final : public One {\n};", "enum class Three { kB };"):
        if len(list(defined_twice({**types, "src/c/two.h": f"namespace strata {{\n{twice}\n}}  // namespace strata"}))) != 1:
            wrong.append(f"not found: {twice}")
        bad += [twice]
    local = {"src/a/one.cpp": "namespace {\nusing One = int;\nconstexpr int kTwo = 2;\nstruct Three {\n  int four;\n};\n"
                              "std::map<int, int> five(int a) {\n  int six = a;\n}\n}  // namespace\nint seven();",
             "src/a/two.cpp": "namespace {\nusing One = int;\nint four();\nint six[2];\nint seven();\n}  // namespace\nint kTwo;",
             "src/b/one.cpp": "namespace {\nusing One = double;\nint kTwo;\n}  // namespace"}
    if found := list(local_twice(local)):
        wrong.append(f"refused: {found}")
    for twice in ("using One = double;", "int kTwo() {", "class Three {", "[[nodiscard]] const Two* five(", "One five{1};"):
        if len(list(local_twice({**local, "src/a/three.cpp": f"namespace {{\n{twice}\n}}  // namespace"}))) != 1:
            wrong.append(f"not found: {twice}")
        bad += [twice]
    print("\n".join(wrong) if wrong else f"layers: self-test passed, {len(bad)} violations found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else check_tree())
