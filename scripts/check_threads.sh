#!/bin/bash
# Builds what shares memory among threads with ThreadSanitizer (device, optimizer, checkpoint, schedule), and tests it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

build cpu-tsan test_device test_optimizer test_checkpoint sample_checkpoint test_schedule
# Without address randomisation: the sanitizer's shadow memory needs fixed places.
setarch "$(uname -m)" --addr-no-randomize \
  ctest --test-dir build/cpu-tsan --parallel "$(nproc)" --output-on-failure --no-tests=error \
    --label-regex fast --tests-regex '^test_(device|optimizer|checkpoint|schedule)'
