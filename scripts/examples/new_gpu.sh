#!/bin/bash
# Benchmarks a GPU that strata does not know yet: predicts, measures, and prints the keys of `hardware` with which
# predictions are right from then on.
#
#   scripts/examples/new_gpu.sh DIR [CONFIG]     DIR: for the results; CONFIG: llama-1.3b by default
set -euo pipefail
. "$(dirname "$0")/common.sh"
directory=${1:?usage: new_gpu.sh DIR [CONFIG]}
config=${2:-$configs/llama-1.3b.json}
sets=(--set run.steps=10)
if [ -n "$tiny" ]; then
  config=${2:-$configs/tiny-cpu.json}
  sets=(--set run.steps=2)
fi
mkdir -p "$directory"

say 'what is here'
"$strata" --version
nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv 2>/dev/null || echo 'no NVIDIA GPU'

say 'predicted'
"$strata" plan "$config" | tee "$directory/plan.txt"

say 'measured, in some minutes'
"$strata" bench "$config" "${sets[@]}" --json "$directory/bench.json" | tee "$directory/bench.txt"

say 'predicted by the rates that were measured'
mapfile -t rates < <(awk '$1 == "rates" { for (i = 2; i <= NF; ++i) if ($i ~ /^hardware[.]/) print "--set\n" $i }' \
  "$directory/bench.txt")
"$strata" plan "$config" "${rates[@]}" | grep '^predicted'
echo "for your configs: ${rates[*]}"
