#!/usr/bin/env python3
"""Asks a validator of JSON Schema, which knows nothing of strata, what it makes of `strata config-schema`: it must be a
schema, take every config that strata takes and refuse those that strata refuses for a single key.

  config_schema_test.py STRATA ROOT    exit code 77 if there is no jsonschema
"""

import copy
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import jsonschema
except ImportError:
    print("skipped: this Python has no jsonschema (pip install jsonschema, and -DSTRATA_PYTHON=PYTHON)")
    sys.exit(77)

# What tiny-cpu.json is changed to, and whether that is still a config.
CHANGES = [
    ("run.steps", 1e3, True),
    ("run.steps", "1000", False),
    ("run.steps", 1.5, False),
    ("run.steps", 0, False),
    ("run.steps", None, False),
    ("run.stepz", 10, False),
    ("$schema", "config.schema.json", True),
    ("$scheme", "config.schema.json", False),
    ("optimizer", [], False),
    ("optimizer", None, False),
    ("optimizer.lr", "3e-4", False),
    ("optimizer.lr", -1, False),
    ("optimizer.betas", [0.9, 0.99], True),
    ("optimizer.betas", [0.9], False),
    ("optimizer.grad_clip", None, True),
    ("optimizer.grad_clip", 0, False),
    ("optimizer.lr_schedule", "linear", True),
    ("optimizer.lr_schedule", "exponential", False),
    ("optimizer.interleave", 1.1, False),
    ("schedule.passes", 65537, False),
    ("schedule.direction", "fixed", False),
    ("data.shuffle", 1, False),
    ("model.rope_scaling", None, True),
    ("model.rope_scaling", {"rope_type": "llama3"}, True),
    ("model.rope_scaling", {"rope_type": "yarn", "attention_factor": None}, True),
    ("model.rope_scaling", {"rope_type": "proportional"}, False),
    ("run.sample_prompts", ["a", "b"], True),
    ("run.sample_prompts", "a", False),
    ("model.no_rope_layers", ["a"], False),
    ("model.layer_types", None, True),
    ("model.layer_types", [1], False),
    ("run.sample_prompts", ["a", {"messages": [{"role": "user", "content": "b"}]}], True),
    ("run.sample_prompts", [{"prompt": "b"}], False),
    *[("memory.host_limit", size, True) for size in ("24GiB", "1.5 TiB", "2GB", "4096", "4096 B", ".5GiB", 4096, None)],
    *[("memory.host_limit", size, False) for size in ("24G", "much", "-1GiB", "1.5", "", -1, 1.5, True)],
]
FILES = [
    ("a.bin", True),
    (["a.bin", "b.bin"], True),
    ([{"path": "a.bin", "weight": 0.7}, {"path": ["b.bin", "c.bin"], "weight": 3}], True),
    ([], False),
    ([3], False),
    ([[""]], False),
    ([{"path": "a.bin"}], False),
    ([{"path": [], "weight": 1}], False),
    ([{"path": "a.bin", "weight": 1, "epochs": 2}], False),
    (["a.bin", {"path": "b.bin", "weight": 1}], False),
    ({"path": "a.bin", "weight": 1}, False),
    (None, False),
]


def changed(config, path, value):
    config = copy.deepcopy(config)
    *sections, key = path.split(".")
    at = config
    for section in sections:
        at = at.setdefault(section, {})
    at[key] = value
    return config


def main():
    strata, root = sys.argv[1], Path(sys.argv[2])
    schema = json.loads(subprocess.run([strata, "config-schema"], check=True, capture_output=True).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    wrong = []

    def expect(name, config, accepted):
        errors = [f"{'.'.join(map(str, e.path))}: {e.message[:100]}" for e in validator.iter_errors(config)]
        if (not errors) != accepted:
            wrong.append(f"{name}: {errors or 'accepted'}")

    configs = sorted((root / "configs").glob("*.json"))
    for file in configs:
        expect(file.name, json.loads(file.read_text()), True)
    readme = re.search(r"^## A config\n+```json\n(.*?)^```", (root / "README.md").read_text(), re.M | re.S)
    expect("README.md", json.loads(readme[1]), True)

    tiny = json.loads((root / "configs/tiny-cpu.json").read_text())
    cases = CHANGES + [("data.train", files, accepted) for files, accepted in FILES]
    with tempfile.TemporaryDirectory() as folder:
        # A run's config.json has every key.
        subprocess.run([strata, "train", root / "configs/tiny-cpu.json", "--output", Path(folder) / "run",
                        "--set", "run.steps=1", "--set", "optimizer.warmup_steps=0"], check=True, capture_output=True)
        expect("the config.json of a run", json.loads((Path(folder) / "run/config.json").read_text()), True)
        for path, value, accepted in cases:
            config = changed(tiny, path, value)
            if path == "data.train":
                config["data"]["synthetic"] = False
            expect(f"{path} = {value!r}", config, accepted)
            # strata itself is the other half of the comparison; a plan reads the config and no data.
            file = Path(folder) / "config.json"
            file.write_text(json.dumps(config))
            plan = subprocess.run([strata, "plan", file], capture_output=True, text=True)
            refused = plan.returncode == 2 and f"\n  {path}" in plan.stderr
            if refused == accepted:
                wrong.append(f"{path} = {value!r}: strata plan ends with {plan.returncode}: {plan.stderr[:300]}")

    print("\n".join(wrong) if wrong else f"{len(configs) + 2} configs accepted, {len(cases)} changes judged alike")
    return 1 if wrong or len(configs) < 8 else 0


if __name__ == "__main__":
    sys.exit(main())
