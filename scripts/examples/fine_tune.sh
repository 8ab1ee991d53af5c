#!/bin/bash
# Fine-tunes a model on chats, with loss on the answers alone, and asks it something.
#
#   scripts/examples/fine_tune.sh MODEL CHATS DIR     MODEL: a Hugging Face folder, such as pretrain.sh leaves;
#                                                     CHATS: JSON lines with "messages"; DIR: for the results
#
# TEMPLATE=chatml names the chat template of a base model, which has none of its own.
set -euo pipefail
. "$(dirname "$0")/common.sh"
model=${1:?usage: fine_tune.sh MODEL CHATS DIR}
chats=${2:?usage: fine_tune.sh MODEL CHATS DIR}
directory=${3:?usage: fine_tune.sh MODEL CHATS DIR}

template=()
if [ -n "${TEMPLATE:-}" ]; then
  template=(--chat-template "$TEMPLATE")
fi
sequence_length=4096
sets=(--set run.steps=300 --set run.eval_every=50 --set optimizer.lr=1e-5 --set optimizer.warmup_steps=20
  --set schedule.sub_batches=16 --set checkpoint.every_steps=100)
if [ -n "$tiny" ]; then
  sequence_length=128
  sets=(--set run.steps=20 --set run.eval_every=10 --set optimizer.lr=3e-3 --set run.dtype=f32
    --set optimizer.gradient_dtype=f32 --set schedule.sub_batches=2)
fi
mkdir -p "$directory"

say 'what the model will see'
"$strata" tokenize "$chats" --tokenizer "$model" "${template[@]}" --show 1

say 'tokens'
"$strata" tokenize "$chats" --tokenizer "$model" "${template[@]}" --output "$directory/train.bin" \
  --validation-output "$directory/validation.bin" --validation-fraction 0.1

say 'train'
cat > "$directory/chat.json" <<END
{
  "model": {"path": "$model"},
  "data": {
    "train": "$directory/train.bin", "validation": "$directory/validation.bin", "sequence_length": $sequence_length,
    "document_mask": true, "packing": true, "overlong": "drop"
  },
  "optimizer": {"lr_schedule": "cosine", "grad_clip": 1.0, "weight_decay": 0.0}
}
END
"$strata" train "$directory/chat.json" "${sets[@]}" --output "$directory/run" --overwrite

say 'an answer'
printf 'validation loss %s\n' "$(last_value "$directory/run/metrics.jsonl" eval val_loss)"
"$strata" generate "$directory/run" "${template[@]}" --chat --prompt 'Is it far?' --max-tokens 20
