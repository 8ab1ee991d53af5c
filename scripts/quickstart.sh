#!/bin/bash
# From a fresh machine to a trained model: installs, builds, collects English text, trains a tokenizer
# on it and configs/quickstart.json on its tokens, on whatever the machine has, and compares the result
# with a model that only counts pairs of bytes. Fails if the model is not clearly better. Losses are
# given for each byte of text, so that tokenizers can be compared. Run folder: runs/quickstart.
#
#   scripts/quickstart.sh                    builds strata
#   STRATA=strata scripts/quickstart.sh      takes a program that is installed; counts no pairs, which has no program
#   STEPS=250 scripts/quickstart.sh          trains for fewer steps than the config has
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

stage() { printf '\n== %s\n' "$*"; }

preset=$(preset_of_this_machine)
strata=${STRATA:-build/$preset/strata}
if [ -z "${STRATA:-}" ]; then
  stage "dependencies"
  scripts/install_dependencies.sh

  stage "build $preset"
  build "$preset" strata strata_byte_model
fi

stage "text"
scripts/english_text.sh data/english
mkdir -p data/quickstart
# make_sets NAME [OPTION...]: token files of the same documents, in which a hash of the text decides.
make_sets() {
  local name=$1
  shift
  "$strata" tokenize data/english --output "data/quickstart/$name.bin" \
    --validation-output "data/quickstart/$name-validation.bin" --validation-fraction 0.05 "$@"
}
"$strata" tokenizer train data/english --vocab-size 1024 --output data/quickstart/tokenizer --overwrite
make_sets train --tokenizer data/quickstart/tokenizer | tee data/quickstart/tokens.txt
make_sets bytes | tee data/quickstart/bytes.txt

stage "train"
sets=(--set run.sample_every=250 --set model.tokenizer=data/quickstart/tokenizer
  --set 'run.sample_prompts=["The file "]')
if nvidia-smi -L 2>/dev/null | grep -q '^GPU' && "$strata" --version | grep -q '^backends .*cuda'; then
  sets+=(--set run.dtype=bf16)
fi
if [ -n "${STEPS:-}" ]; then
  sets+=(--set "run.steps=$STEPS")
fi
"$strata" train configs/quickstart.json "${sets[@]}" --output runs/quickstart --overwrite

stage "result"
pair_model_loss=none
if [ -z "${STRATA:-}" ]; then
  pair_model_loss=$("build/$preset/strata_byte_model" \
    data/quickstart/bytes.bin data/quickstart/bytes-validation.bin)
fi
# validation_tokens FILE: what `strata tokenize` has said of the validation set. Each document has
# one token more than text, which ends it.
validation_tokens() {
  awk '/-validation.bin: / { gsub(",", ""); for (i = 2; i <= NF; ++i) if ($i == "tokens") print $(i - 1) }' "$1"
}
awk -v pairs="$pair_model_loss" -v tokens="$(validation_tokens data/quickstart/tokens.txt)" \
  -v bytes="$(validation_tokens data/quickstart/bytes.txt)" '
  function value(key) {
    match($0, "\"" key "\":[-+.eE0-9]+")
    return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0
  }
  /"event":"step"/ { last = value("loss"); if (steps++ == 0) first = last }
  /"event":"eval"/ { loss = value("val_loss") }
  END {
    if (tokens <= 0 || bytes <= tokens) { print "FAILED: the sets were not counted"; exit 1 }
    printf "training loss     %.4f nats per token in the first step, %.4f in the last\n", first, last
    printf "validation loss   %.4f nats per token of %.2f bytes\n", loss, bytes / tokens
    loss *= tokens / bytes
    printf "validation loss   %.4f nats per byte\n", loss
    counted = pairs != "none"
    if (counted) printf "byte-pair counts  %.4f nats per byte, the same training and validation text\n", pairs
    if (steps < 2 || loss == 0 || (counted && pairs == 0)) { print "FAILED: metrics are missing"; exit 1 }
    if (last >= first) { print "FAILED: the training loss did not fall"; exit 1 }
    if (loss >= 2.6) { print "FAILED: the validation loss must be below 2.6"; exit 1 }
    if (counted && loss > pairs - 0.3) { print "FAILED: it must be at least 0.3 below the pair counts"; exit 1 }
    print "passed; the run folder is runs/quickstart"
  }' runs/quickstart/metrics.jsonl

stage "what the model makes of \"The file \""
"$strata" generate runs/quickstart --tokenizer data/quickstart/tokenizer --prompt "The file " --max-tokens 60 \
  --temperature 0.7 --seed 1
