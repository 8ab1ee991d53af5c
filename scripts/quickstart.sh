#!/bin/bash
# From a fresh machine to a trained model: installs, builds, collects English text, tokenizes it, trains
# configs/quickstart.json on whatever the machine has and compares the result with a model that only
# counts pairs of bytes. Fails if the model is not clearly better. Run folder: runs/quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

stage() { printf '\n== %s\n' "$*"; }

stage "dependencies"
scripts/install_dependencies.sh

preset=$(preset_of_this_machine)
stage "build $preset"
build "$preset" strata strata_byte_model
strata=build/$preset/strata

stage "text"
scripts/english_text.sh data/english
"$strata" tokenize data/english --output data/quickstart/train.bin \
  --validation-output data/quickstart/validation.bin --validation-fraction 0.05

stage "train"
sets=()
if [ "$preset" = cuda-release ]; then
  sets=(--set run.dtype=bf16)
fi
rm -rf runs/quickstart
"$strata" train configs/quickstart.json "${sets[@]}" --output runs/quickstart

stage "result"
# last EVENT KEY, first EVENT KEY: a number out of the run's metrics.
values() { grep "\"event\":\"$1\"" runs/quickstart/metrics.jsonl | sed -E "s/.*\"$2\":([-+.eE0-9]+).*/\1/"; }
first_loss=$(values step loss | head -n 1)
last_loss=$(values step loss | tail -n 1)
validation_loss=$(values eval val_loss | tail -n 1)
pair_model_loss=$("build/$preset/strata_byte_model" data/quickstart/train.bin data/quickstart/validation.bin)

awk -v first="$first_loss" -v last="$last_loss" -v loss="$validation_loss" -v pairs="$pair_model_loss" '
  BEGIN {
    printf "training loss      %.4f nats per byte in the first step, %.4f in the last\n", first, last
    printf "validation loss    %.4f nats per byte\n", loss
    printf "byte-pair counts   %.4f nats per byte, the same training and validation text\n", pairs
    if (last >= first) { print "FAILED: the training loss did not fall"; exit 1 }
    if (loss >= 2.6) { print "FAILED: the validation loss must be below 2.6"; exit 1 }
    if (loss > pairs - 0.3) { print "FAILED: the model must be at least 0.3 better than counting"; exit 1 }
    print "passed; the run folder is runs/quickstart"
  }'
