#!/bin/bash
# Goes on with a run on other hardware: begins on one rank, goes on with two, and ends on one. On GPUs a rank is a GPU.
#
#   scripts/examples/other_hardware.sh CONFIG DIR --set schedule.step_rows=ROWS [--set KEY=VALUE]...
#
# DIR is the run folder. ROWS are those of a step on all ranks together: without it a step of two ranks would have twice
# as many as a step of one, so it keeps both on the same data in the same order. Each part ends as a job does whose time
# is over: by SIGUSR1, with its state saved and exit code 75.
set -euo pipefail
. "$(dirname "$0")/common.sh"
config=${1:?usage: other_hardware.sh CONFIG DIR [--set KEY=VALUE]...}
directory=${2:?usage: other_hardware.sh CONFIG DIR [--set KEY=VALUE]...}
sets=("${@:3}")
steps_of_part=200
if [ -n "$tiny" ]; then
  steps_of_part=10
  sets+=(--set run.threads=1)
fi

# steps_done: how many steps metrics.jsonl has.
steps_done() {
  local count
  count=$(grep -c '"event":"step"' "$directory/metrics.jsonl" 2>/dev/null) || true
  echo "${count:-0}"
}

# part RANKS [LAST]: goes on with so many ranks; until step LAST, or to the end.
part() {
  local ranks=$1 last=${2:-} code=0 before steps=()
  before=$(steps_done)
  say "$ranks rank(s)${last:+, until step $last}"
  # Tiny steps are so short that all could be done before the signal: only the last part has an end.
  [ -z "$tiny" ] || steps=(--set "run.steps=$([ -n "$last" ] && echo 1000000000 || echo $((before + 20)))")
  mpirun -np "$ranks" --bind-to none "$strata" train "$config" "${sets[@]}" "${steps[@]}" --output "$directory" \
    --resume auto &
  local job=$!
  if [ -n "$last" ]; then
    # A part before may have gone beyond this step: mpirun passes signals on only once its ranks train.
    [ "$last" -gt "$before" ] || last=$((before + 1))
    while kill -0 "$job" 2>/dev/null && [ "$(steps_done)" -lt "$last" ]; do sleep 0.1; done
    kill -USR1 "$job" 2>/dev/null || true
  fi
  wait "$job" || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 75 ] || exit "$code"
}

part 1 "$steps_of_part"
part 2 $((2 * steps_of_part))
part 1

say 'one run, on both'
grep -o '"event":"\(start\|resume\)".*"ranks":[0-9]*' "$directory/metrics.jsonl" | sed 's/,.*,/ ... /'
printf '%s steps, loss %s\n' "$(steps_done)" "$(last_value "$directory/metrics.jsonl" step loss)"
