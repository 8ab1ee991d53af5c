#!/bin/bash
# Compiles the sm_90a kernels as the CUDA build does and reads what ptxas says: fails if a kernel
# keeps registers in local memory (spills), if warpgroup products are serialised or need waits that
# the source does not have (C75xx), or if setmaxnreg is ignored.
set -euo pipefail
cd "$(dirname "$0")/.."
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
failed=0
for source in kernels/cuda/attention/hopper/*.cu; do
  report=$output/$(basename "$source").txt
  "$nvcc" -std=c++20 -O3 -DNDEBUG --expt-relaxed-constexpr -I. -Iinclude \
    --generate-code=arch=compute_90a,code=sm_90a -Xptxas -v -c "$source" -o "$output/kernel.o" \
    > "$report" 2>&1 || { cat "$report"; exit 1; }
  kernels=$(grep -c "Compiling entry function" "$report" || true)
  if [ "$kernels" -eq 0 ]; then
    echo "$source: ptxas reports no kernel"
    failed=1
  fi
  if grep -E "\(C75[0-9]{2}\)|[^0-9][1-9][0-9]* bytes (stack frame|spill)" "$report"; then
    echo "$source: see above"
    failed=1
  fi
  echo "$source: $kernels kernels"
done
exit $failed
