#!/bin/bash
# Pretrains a model on texts of your own, with a tokenizer that is trained on them.
#
#   scripts/examples/pretrain.sh TEXTS DIR     TEXTS: a folder of .txt or .md files, or JSON lines; DIR: for the results
#
# CONFIG names another config than configs/llama-1.3b.json, and VOCABULARY how many tokens there are, if not 32,000.
# Afterwards DIR/run is the run folder, DIR/model a Hugging Face folder.
set -euo pipefail
. "$(dirname "$0")/common.sh"
texts=${1:?usage: pretrain.sh TEXTS DIR}
directory=${2:?usage: pretrain.sh TEXTS DIR}

config=${CONFIG:-$configs/llama-1.3b.json} vocabulary=${VOCABULARY:-32000}
sets=(--set data.document_mask=true --set run.eval_every=500 --set run.sample_every=500
  --set checkpoint.every_steps=500)
if [ -n "$tiny" ]; then
  config=$configs/quickstart.json vocabulary=512
  sets=(--set run.steps=40 --set optimizer.warmup_steps=4 --set run.eval_every=20 --set run.sample_every=20
    --set run.sample_tokens=8)
fi
mkdir -p "$directory"

say 'tokenizer'
"$strata" tokenizer train "$texts" --vocab-size "$vocabulary" --output "$directory/tokenizer" --overwrite \
  --special '<|im_start|>' --special '<|im_end|>'   # markers of chats, for a fine-tuning later

say 'tokens'
"$strata" tokenize "$texts" --tokenizer "$directory/tokenizer" --output "$directory/train.bin" \
  --validation-output "$directory/validation.bin" --validation-fraction 0.05

say 'will it fit, and how fast?'
sets+=(--set "data.train=$directory/train.bin" --set "data.validation=$directory/validation.bin"
  --set "model.vocab_size=$vocabulary" --set "model.tokenizer=$directory/tokenizer"
  --set 'run.sample_prompts=["The "]')
"$strata" plan "$config" "${sets[@]}"

say 'train'
"$strata" train "$config" "${sets[@]}" --output "$directory/run" --overwrite

say 'what came of it'
printf 'validation loss %s\n' "$(last_value "$directory/run/metrics.jsonl" eval val_loss)"
"$strata" export "$directory/run" "$directory/model" --overwrite
cp "$directory/tokenizer"/* "$directory/model"
"$strata" generate "$directory/model" --prompt 'The ' --max-tokens 40 --temperature 0.8
