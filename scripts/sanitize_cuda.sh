#!/bin/bash
# Runs the smallest shapes of all operator tests under compute-sanitizer: memcheck finds accesses
# out of bounds, racecheck unordered ones in shared memory. Fails if a tool reports an error.
#
#   scripts/sanitize_cuda.sh [BUILD_FOLDER]       (build/cuda-release)
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=${1:-build/cuda-release}
if ! nvidia-smi -L 2>/dev/null | grep -q "^GPU"; then
  echo "sanitize_cuda.sh: no GPU is visible, so nothing would be checked" >&2
  exit 1
fi
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
failed=0
for tool in memcheck racecheck; do
  echo "== $tool"
  "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 "$build/test_ops" "[small]" ||
    failed=1
done
exit $failed
