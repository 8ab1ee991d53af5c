#!/bin/bash
# Builds everything and runs the tests: the fast ones, and the CUDA ones where there is a GPU.
#
#   scripts/test.sh [--slow]     --slow: the slow ones as well
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

labels='fast|long|cuda'
case ${1:-} in
  '') ;;
  --slow) labels="$labels|slow" ;;
  *) echo "usage: scripts/test.sh [--slow]" >&2; exit 2 ;;
esac

scripts/install_dependencies.sh
preset=$(preset_of_this_machine)
build "$preset"

# Open MPI refuses to run as root, and more ranks than cores, unless told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
ctest --test-dir "build/$preset" --label-regex "$labels" --output-on-failure --no-tests=error
