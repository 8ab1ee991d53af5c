#!/bin/bash
# compare_llama_cpp.sh STRATA: builds llama.cpp for the CPU and compares what it computes of strata's GGUF files with
# transformers and with f64 arithmetic (logits, greedy tokens), and its ids of texts with those of `tokenizers`. The
# sources come out of the Python package llama-cpp-python, and go to build/llama_cpp.
set -euo pipefail
strata=$(realpath "$1")
cd "$(dirname "$0")/.."
. scripts/common.sh
to=build/llama_cpp
python=$to/venv/bin/python

if [ ! -e "$to/venv/complete" ]; then
  python3 -m venv "$to/venv"
  "$python" -m pip --quiet --disable-pip-version-check install gguf==0.19.0 safetensors==0.8.0 tokenizers==0.23.3
  touch "$to/venv/complete"
fi
llama_cpp=$(llama_cpp_sources "$python")

# No faster than the tests need: without the instructions of this machine, so that ccache serves others.
options=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DGGML_NATIVE=OFF
  -DGGML_OPENMP=OFF -DGGML_LLAMAFILE=OFF -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF
  -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF)
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
fi
cmake -S "$llama_cpp" -B "$to/build" -G Ninja "${options[@]}" >"$to/configure.log" 2>&1 ||
  { cat "$to/configure.log" >&2; exit 1; }
cmake --build "$to/build" --target llama >"$to/build.log" || { tail -50 "$to/build.log" >&2; exit 1; }
"${CXX:-g++}" -std=c++20 -O1 -I"$llama_cpp/include" -I"$llama_cpp/ggml/include" tests/e2e/llama_cpp_reference.cpp \
  -o "$to/reference" -L"$to/build/bin" -lllama -lggml -lggml-base -Wl,-rpath,"$PWD/$to/build/bin"

"$python" tests/e2e/gguf_test.py "$strata" tests/golden/data configs "$to/reference"
