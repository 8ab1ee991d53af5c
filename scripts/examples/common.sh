# shellcheck shell=bash disable=SC2034
# What the examples share; sourced, not run. STRATA names the program, STRATA_TINY=1 makes everything small enough for
# two cores and some seconds: what is typed stays the same, only numbers and the model shrink.
strata=${STRATA:-strata}
tiny=${STRATA_TINY:-}
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
configs=${STRATA_CONFIGS:-$examples/../../configs}

say() { printf '\n== %s\n' "$*"; }

# last_value FILE EVENT KEY: a number of the last event of this kind in metrics.jsonl.
last_value() {
  awk -v event="\"event\":\"$2\"" -v key="\"$3\":" '
    index($0, event) && (at = index($0, key)) { value = substr($0, at + length(key)) + 0 }
    END { print value }' "$1"
}
