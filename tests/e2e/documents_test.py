#!/usr/bin/env python3
"""Runs every command of README, CONTRIBUTING and the pages of docs, page by page in the order of the page, as a user
would who has what the page speaks of. What cannot run here is in NOT_RUN with its reason; a command that is neither
there nor fails nor runs does not exist, so a page can have no command that nobody tried. docs/cookbook.md has a test of
its own, and docs/measurements shows what was typed on the days and GPUs that its pages name.

What is typed stays the same, but `train` and `bench` take a model of 0.2 million parameters where a page names a large
one of configs/, suites have three rows of it and loads a dozen prompts. `tune` keeps four layers for a GPU that a page
names, takes one that is not here for small steps where it names none, or measures small steps on the CPU. sbatch and
srun are stand-ins that run what they are given.

  documents_test.py STRATA ROOT [PAGE]...    exit code 77 if there is no mpirun
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HANGS_S = 1800  # only what hangs takes as long, on any machine
PAGES_WITHOUT = re.compile(r"docs/(cookbook\.md|measurements/|decisions/)")

# Commands, by how they begin, that are not run by this test, and why.
CI_RUNS = "a stage of .ci/run"
NOT_RUN = {
    "scripts/quickstart.sh": CI_RUNS,
    "scripts/test.sh": CI_RUNS,
    "scripts/test_gpu.py": "needs a GPU; ctest runs its self-test",
    "scripts/measure/tests_under_load.py": "takes hours",
    "scripts/measure/preferences.py": "needs a GPU for a model of this size",
    "scripts/install_dependencies.sh": CI_RUNS,
    "cmake --preset c": "stages of .ci/run build these presets, or those that they are made of",
    "cmake --build --preset c": "stages of .ci/run build these presets, or those that they are made of",
    "sudo cmake --install": "changes the system; the packages are made of the same installation",
    "cmake --install build/c": "the packages are made of the same installation",
    "cpack --config": "scripts/check_package.sh, a stage of .ci/run",
    "sudo apt install": "scripts/check_package.sh --deb, a stage of .ci/run",
    "tar -xzf packages": "scripts/check_package.sh, a stage of .ci/run",
    "scripts/unpack_dependencies.sh": CI_RUNS,
    "module load": "modules are a site's own",
    "ctest --test-dir": CI_RUNS,
    "build/cpu-release/test_schedule": "scripts/test.sh, a stage of .ci/run, runs this program",
    "build/cpu-debug/strata_fuzz": CI_RUNS,
    "pip install torch": "PyTorch makes the goldens, which are in the repository, and takes gigabytes",
    "python3 scripts/golden/": "PyTorch makes the goldens, which are in the repository, and takes gigabytes",
    "srun --mpi=pmix --gpus-per-node": "needs a cluster with GPUs and Apptainer",
    "mpirun -np 4 --bind-to none apptainer": "needs Apptainer",
    "nsys profile": "needs NVIDIA's Nsight Systems and a GPU",
    "tensorboard --logdir": "a server of others that does not end; tests/runfiles reads the files",
    "python3 -m venv": "the first stage of .ci/run makes such a Python",
    "pip install huggingface_hub": "fetches a model of others, which takes gigabytes and a licence",
    "hf download": "fetches a model of others, which takes gigabytes and a licence",
    "tests/model/compare_config_keys.py": "needs PyTorch, which takes gigabytes",
    "CUDA_VISIBLE_DEVICES= strata doctor --self-test": "without a GPU it is a command above it",
    "chromium --headless": "tests/report/browser_test.py opens a page in Chromium",
    "pngquant": "makes a picture smaller by a program of others",
}

# Programs of others, without which commands that begin so are passed over.
NEEDS = {
    "strata man train": "man",
    "strata report runs/first --png": "rsvg-convert",
    "rsvg-convert": "rsvg-convert",
    "strata inspect runs/mine/checkpoints": "jq",
    "strata inspect 'web": "jq",
}

# Names of a page that stand for others here.
STANDS_FOR = {"/scratch/me": "scratch/me", "kill -TERM PID": "kill -TERM $!"}

# What a page takes for granted, made by Stock.
GIVEN = {
    "docs/adapters.md": ["runs/lora", "Llama-3.1-8B-Instruct"],
    "README.md": ["texts", "MODEL", "Llama-2-7b-hf"],
    "docs/benchmarks.md": ["before.json", "after.json", "bench"],
    "docs/checkpoints.md": ["train.bin"],
    "docs/command-line.md": ["runs/mine", "web-1.bin", "web-2.bin", "train.bin", "models/llama-3", "downloads/llama"],
    "docs/doctor.md": ["run.json", "train.bin", "MODEL"],
    "docs/evaluation.md": ["my-model", "runs/mine", "book.txt", "validation.bin", "questions.jsonl"],
    "docs/figures/README.md": ["runs/wide", "runs/narrow"],
    "docs/fine-tuning.md": ["chats.jsonl", "Llama-3.1-8B-Instruct", "chat.json"],
    "docs/fp8.md": ["run.json", "train.bin", "MODEL"],
    "docs/generation.md": ["my-model", "MODEL", "runs/mine", "prompts.jsonl", "run.json", "train.bin"],
    "docs/installing.md": ["train.bin"],
    "docs/preferences.md": ["pairs.jsonl", "Llama-3.1-8B-Instruct", "dpo.json"],
    "docs/report.md": ["runs/first", "runs/second"],
    "docs/running.md": ["corpus.bin"],
    "docs/token-files.md": ["texts", "models/llama-3"],
    "docs/tokenizers.md": ["texts", "MODEL", "text.txt"],
    "docs/tuning.md": ["Llama-2-7b-hf", "train.bin"],
}

# On a machine without a GPU and with little room.
STRATA = """#!/bin/bash
words=("$@")
case " $* " in *" --list "*) ;; " train "*|" bench "*)
  for i in "${!words[@]}"; do
    case ${words[i]} in
      configs/llama-*|configs/suites/*) words[i]=tiny/${words[i]#configs/} ;;
      data.sequence_length=4096) words[i]=data.sequence_length=512 ;;
      --prompts) words[i + 1]=12 ;;
      tuned.json) words+=(--set run.steps=1 --set optimizer.warmup_steps=0) ;;
    esac
  done ;;
" tune "*" --gpu "*) words+=(--set model.num_hidden_layers=4) ;;
" tune "*" --backend "*) ;;
" tune "*" --measure "*) words+=(--backend cpu --set run.dtype=bf16 --set data.sequence_length=512 --tokens 1024) ;;
" tune "*) words+=(--gpu H200 --host-memory 100GiB --tokens 4096) ;;
esac
[ -z "${ENDLESS:-}" ] || words+=(--set run.steps=1000000000)
case "${WAS_ENDLESS:-} $* " in "1 "*" --resume "*) words+=(--allow run.steps) ;; esac
exec "$STRATA_UNDER_TEST" "${words[@]}"
"""
SBATCH = """#!/bin/bash
set -euo pipefail
SLURM_SUBMIT_DIR=$PWD SLURM_JOB_NAME=job SLURM_JOB_ID=1 SLURM_CPUS_PER_TASK=1 STRATA=strata bash "$@"
"""
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
CHAT_TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                 "{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}")
# `kill` comes from a person who has seen the run train, and reads what it says before typing on. A run that is killed
# has no end of its own that could come first.
PROLOGUE = """set -euo pipefail
kill() {
  until grep -q '"event":"step"' runs/first/metrics.jsonl 2>/dev/null; do sleep 0.05; done
  builtin kill "$@"
  local code=0
  wait %1 || code=$?
  [ "$code" -eq 75 ]
}
"""


def complete(text):
    """Whether a shell has nothing to add to these lines."""
    if text.endswith("\\\n"):
        return False
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    return checked.returncode == 0 and not checked.stderr


def blocks(page):
    """The commands of each of the page's blocks."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S):
        commands, text = [], ""
        for line in block.splitlines(keepends=True):
            text += line
            if text.strip() and complete(text):
                commands.append(text)
            if complete(text):
                text = ""
        yield commands + ([text] if text else [])


def call(folder, environment, *words):
    subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=True, stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT)


def make_tools(folder, strata, root):
    """Stand-ins in bin/, the repository's files, and tiny models and suites by the names of the large ones."""
    (folder / "bin").mkdir()
    for name, text in (("strata", STRATA), ("sbatch", SBATCH), ("srun", SRUN), ("less", "#!/bin/sh\nexec cat\n")):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    config = json.loads((root / "configs/quickstart.json").read_text())
    config["run"].update(steps=40, output="runs/tiny")
    config["model"].update(vocab_size=512, hidden_size=64, intermediate_size=176, max_position_embeddings=2048)
    config["data"] = {"sequence_length": 128}
    config["schedule"] = {"rows": 2, "sub_batches": 1}
    config["optimizer"]["warmup_steps"] = 2
    (folder / "tiny/suites").mkdir(parents=True)
    for name in ("llama-7b", "llama-1.3b"):
        (folder / f"tiny/{name}.json").write_text(json.dumps(config))
    suite = {"repeats": 1, "rows": [{"name": name, "config": "../llama-7b.json", "set": ["run.steps=3"]}
                                    for name in ("7b", "7b-clip", "13b")]}
    for name in ("h200", "models"):
        (folder / f"tiny/suites/{name}.json").write_text(json.dumps(suite))
    shutil.copy(root / "configs/suites/tiny.json", folder / "tiny/suites/tiny.json")
    shutil.copy(root / "configs/tiny-cpu.json", folder / "tiny/tiny-cpu.json")


class Stock:
    """Makes what pages take for granted, by the names that they use."""

    def __init__(self, folder, environment, root):
        self.folder, self.environment, self.root = folder, environment, root
        self.make_texts()
        self.make_runs_and_models()
        self.make_chats()
        self.make_results()

    def strata(self, *words):
        call(self.folder, self.environment, "strata", *words)

    def write(self, name, *records):
        (self.folder / name).write_text("".join(json.dumps(r) + "\n" for r in records))

    def make_texts(self):
        (self.folder / "texts").mkdir()
        for page in sorted((self.root / "docs").glob("*.md")):
            for number, section in enumerate(page.read_text().split("\n\n")):
                (self.folder / f"texts/{page.stem}-{number}.txt").write_text(section)
        shutil.copy(self.root / "docs/schedule.md", self.folder / "book.txt")
        shutil.copy(self.root / "docs/glossary.md", self.folder / "text.txt")
        self.strata("tokenizer", "train", "texts", "--vocab-size", "512", "--output", "tokenizer")
        self.strata("tokenize", "texts", "--tokenizer", "tokenizer", "--output", "train.bin", "--validation-output",
                    "validation.bin", "--validation-fraction", "0.1")
        for name in ("corpus.bin", "web-1.bin", "web-2.bin"):
            shutil.copy(self.folder / "train.bin", self.folder / name)

    def train(self, run, *sets):
        words = [w for s in ("data.train=train.bin", "data.validation=validation.bin", *sets) for w in ("--set", s)]
        self.strata("train", "tiny/llama-7b.json", "--output", f"runs/{run}", *words)

    def make_runs_and_models(self):
        for run in ("first", "second", "wide", "narrow"):
            self.train(run, "run.steps=20")
        self.strata("export", "runs/first", "model", "--dtype", "f32")
        for file in (self.folder / "tokenizer").iterdir():
            shutil.copy(file, self.folder / "model" / file.name)
        # Goes on from a model with a tokenizer, so that its checkpoints have one as well.
        self.train("mine", "model.path=model", "run.steps=1240", "checkpoint.every_steps=1000", "checkpoint.keep=2",
                   "data.sequence_length=16", "schedule.rows=1")
        told = self.folder / "model/tokenizer_config.json"
        members = json.loads(told.read_text()) if told.exists() else {}
        self.write(told, {**members, "chat_template": CHAT_TEMPLATE})
        for name in ("MODEL", "my-model", "Llama-2-7b-hf", "models/llama-3", "downloads/llama",
                     "Llama-3.1-8B-Instruct"):
            shutil.copytree(self.folder / "model", self.folder / name)
        self.train("lora", "model.path=Llama-3.1-8B-Instruct", "run.steps=20", "adapter.rank=4")
        run = json.loads((self.folder / "tiny/llama-7b.json").read_text())
        run["data"]["train"] = "train.bin"
        run["model"]["tokenizer"] = "MODEL"
        self.write("run.json", run)

    def make_chats(self):
        self.write("chats.jsonl", *({"messages": [{"role": "user", "content": f"Is it far to house {i}?"},
                                                  {"role": "assistant", "content": "Ten minutes on foot."}]}
                                    for i in range(400)))
        self.write("pairs.jsonl", *({"prompt": f"Is it far to house {i}?", "chosen": "Ten minutes on foot.",
                                     "rejected": "Yes."} for i in range(400)))
        self.write("chat.json", self.config_of("docs/fine-tuning.md"))
        self.write("dpo.json", self.config_of("docs/preferences.md"))
        self.write("prompts.jsonl", *({"prompt": f"House {i}"} for i in range(4)))
        self.write("questions.jsonl", {"prompt": "Is it far?", "choices": [" Yes.", " No."], "answer": 1})

    def config_of(self, page):
        """The config that stands on a page, for a tiny model."""
        text = (self.root / page).read_text()
        config = json.loads(re.search(r"^```json\n(\{\n.*?^\}\n)```", text, re.M | re.S).group(1))
        config["run"]["steps"] = 4
        config["data"]["sequence_length"] = 512
        config["optimizer"]["warmup_steps"] = 1
        return config

    def make_results(self):
        """Of a suite, and the same at a part of the speed, so that no comparison fails by chance: at half of it for
        files that are compared, and at a millionth for what a job measures anew, on a machine that may be busy."""
        self.strata("bench", "--suite", "tiny/suites/models.json", "--json", "after.json")
        results = json.loads((self.folder / "after.json").read_text())
        (self.folder / "bench").mkdir()
        self.write("before.json", slowed(results, 2))
        self.write("bench/good.json", slowed(results, 1e6))


def slowed(results, factor):
    """Returns results of a suite in which everything is so many times slower."""
    slow = json.loads(json.dumps(results))
    for row in slow["rows"]:
        row["tokens_per_s"] /= factor
        for run in row["runs"]:
            run["result"]["tokens_per_s"] /= factor
    return slow


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def not_run(page, command, used):
    """Whether a command is passed over; notes which reason was used."""
    used.update(b for b in NOT_RUN if command.startswith(b))
    if any(command.startswith(b) for b in NOT_RUN):
        return True
    lacking = [tool for b, tool in NEEDS.items() if command.startswith(b) and not shutil.which(tool)]
    if lacking:
        print(f"skipped: {page}: {command.splitlines()[0]}: there is no {lacking[0]}")
    return bool(lacking)


def run_page(page, root, stock, folder, environment, used):
    """Runs a page's commands in a folder of its own; returns what is wrong."""
    folder.mkdir(parents=True)
    for name in ["tiny", *GIVEN.get(page, [])]:
        copy(stock / name, folder / name)
    for name in ("configs", "scripts"):
        copy(root / name, folder / name)
    copy(root / "docs/figures", folder / "docs/figures")
    home = folder / "home"
    for name in (".zfunc", ".config/fish/completions"):
        (home / name).mkdir(parents=True)
    (folder / "scratch/me").mkdir(parents=True)
    environment = {**environment, "HOME": str(home)}
    typed = folder.with_suffix(".typed")
    for commands in blocks((root / page).read_text()):
        script = PROLOGUE
        for command, following in zip(commands, [*commands[1:], ""]):
            if not_run(page, command, used):
                continue
            script += f"printf '%s\\n' {shell_word(command)} >>{shell_word(str(typed))}\n"
            for name, other in STANDS_FOR.items():
                command = command.replace(name, other)
            # What is killed next was begun in another window, or in the background.
            in_background = following.startswith("kill ") and not command.rstrip().endswith("&")
            if following.startswith("kill "):
                script += "export ENDLESS=1 WAS_ENDLESS=1\n"
            script += command.rstrip("\n") + (" &\n" if in_background else "\n") + "unset ENDLESS\n"
        if script == PROLOGUE:
            continue
        begun = time.monotonic()
        typed.write_text("")
        done = subprocess.Popen(["bash", "-c", script + "wait\n"], cwd=folder, env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                start_new_session=True)
        try:
            said = done.communicate(timeout=HANGS_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            said = f"it takes more than {HANGS_S // 60} minutes"
        lines = [line for line in typed.read_text().splitlines() if line.strip()]
        print(f"{time.monotonic() - begun:5.1f} s  {page}: {len(lines)} lines", flush=True)
        if done.returncode != 0:
            return [f"{page}: {lines[-1] if lines else script}\n{said[-2500:]}"]
    return []


def shell_word(text):
    return "'" + text.rstrip("\n").replace("'", "'\\''") + "'"


def main():
    strata, root = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if not shutil.which("mpirun") or "MPI                none" in subprocess.run(
            [strata, "--version"], capture_output=True, text=True).stdout:
        print("skipped: needs mpirun, and a strata with MPI")
        return 77
    found = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    names = [str(p.relative_to(root)) for p in found]
    pages = sys.argv[3:] or [n for n in names if not PAGES_WITHOUT.match(n)]
    wrong, used = [], set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stock = folder / "stock"
        (stock / "home").mkdir(parents=True)
        make_tools(stock, strata, root)
        environment = {**os.environ, "PATH": f"{stock / 'bin'}:{os.environ['PATH']}", "HOME": str(stock / "home"),
                       "STRATA_UNDER_TEST": str(strata), "CUDA_VISIBLE_DEVICES": "", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        for unwanted in ("STRATA", "XDG_CACHE_HOME"):
            environment.pop(unwanted, None)
        begun = time.monotonic()
        Stock(stock, environment, root)
        print(f"{time.monotonic() - begun:5.1f} s  what the pages take for granted", flush=True)
        # Commands wait for files and for each other, so two pages are tried at a time.
        with ThreadPoolExecutor(2) as pool:
            for complaints in pool.map(lambda page: run_page(page, root, stock, folder / page.replace("/", "_"),
                                                             environment, used), pages):
                wrong += complaints
    if not sys.argv[3:]:
        wrong += [f"no page has a command that begins with {b!r}: take it out of NOT_RUN"
                  for b in NOT_RUN if b not in used]
    print("\n".join(wrong) if wrong else f"every command of {len(pages)} pages runs, but for those that say why not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
