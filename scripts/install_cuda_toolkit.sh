#!/bin/bash
# Puts a CUDA toolkit that compiles and links strata into DIR, from NVIDIA's packages on PyPI: for CI and
# for machines without one. Needs python3 with venv; does nothing if DIR is complete.
#
#   scripts/install_cuda_toolkit.sh DIR     afterwards DIR/bin/nvcc
set -euo pipefail

directory=${1:?usage: scripts/install_cuda_toolkit.sh DIR}
if [ -x "$directory/bin/nvcc" ] && [ -d "$directory/include/nvtx3" ]; then
  exit 0
fi
packages=(
  nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.*
  nvidia-cuda-culibos==13.0.* nvidia-cuda-cccl==13.0.* nvidia-cublas==13.1.* nvidia-nvtx==13.0.*
)

rm -rf "$directory" "$directory.venv"
mkdir -p "$(dirname "$directory")"
python3 -m venv "$directory.venv"
"$directory.venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
mv "$directory.venv"/lib/python3*/site-packages/nvidia/cu13 "$directory"
rm -rf "$directory.venv"

# The packages leave out what only a toolkit's installer makes: names without version and lib64.
for library in "$directory"/lib/lib*.so.*; do
  ln -sf "$(basename "$library")" "${library%%.so.*}.so"
done
ln -s lib "$directory/lib64"
chmod +x "$directory"/bin/* "$directory"/nvvm/bin/*
"$directory/bin/nvcc" --version | tail -n 2
