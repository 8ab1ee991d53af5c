#!/bin/bash
# Builds everything and runs the tests: the fast ones, and where there is a GPU also those that need one.
#
#   scripts/test.sh [--slow]     --slow: the long and the slow ones as well, and jobs on two hosts
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

labels='fast'
case ${1:-} in
  '') ;;
  --slow) labels="$labels|long|slow|cluster|cookbook" ;;
  *) echo "usage: scripts/test.sh [--slow]" >&2; exit 2 ;;
esac

scripts/install_dependencies.sh
preset=$(preset_of_this_machine)
build "$preset"

# Open MPI refuses to run as root, and more ranks than cores, unless told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# One more at a time than there are cores: the longest wait for other processes and for disks half of their time.
# What they take of the processors, user and system, goes beside the program: CI compares it with a budget.
TIMEFORMAT='%U %S'
{
  time ctest --test-dir "build/$preset" --label-regex "$labels" --parallel $(($(nproc) + 1)) \
    --output-on-failure --no-tests=error 2>&3
} 3>&2 2> "build/$preset/test-seconds"
if [ "$preset" = cuda-release ]; then
  scripts/test_gpu.py --build "build/$preset"
fi
