# shellcheck shell=bash
# Functions that the scripts of this folder share; sourced, not run.

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "needs root, or sudo: $*" >&2
    return 1
  fi
}

find_nvcc() {
  command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null
}

# The preset for this machine: CUDA where there are a compiler and a GPU.
preset_of_this_machine() {
  if find_nvcc >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    echo cuda-release
  else
    echo cpu-release
  fi
}

# build PRESET [TARGET...]: configures and builds, everything if no target is named. STRATA_PYTHON may name the Python
# of the tests that need one, STRATA_CUDA_ARCHITECTURES other GPUs than the preset's.
build() {
  local preset=$1 output
  shift
  local options=()
  if [[ $preset == cuda-* ]]; then
    options+=("-DCMAKE_CUDA_COMPILER=$(find_nvcc)")
    if [ -n "${STRATA_CUDA_ARCHITECTURES:-}" ]; then
      options+=("-DSTRATA_CUDA_ARCHITECTURES=$STRATA_CUDA_ARCHITECTURES")
    fi
  fi
  if [ -n "${STRATA_PYTHON:-}" ]; then
    options+=("-DSTRATA_PYTHON=$STRATA_PYTHON")
  fi
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
    export CCACHE_SLOPPINESS=pch_defines,time_macros  # what it needs to cache users of a precompiled header
    export CCACHE_INODECACHE=true  # it reads a header once, not again for each of its users: half the time of hits
    # Paths of this tree are relative to the build's folder, and what debuggers are told of it does not count: what one
    # preset or one clone has compiled serves all.
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
    export CCACHE_PCH_EXTSUM=true  # what clang has precompiled is known by its headers (StrataTargets.cmake)
  fi
  output=$(cmake --preset "$preset" "${options[@]}" 2>&1) || { echo "$output" >&2; return 1; }
  cmake --build --preset "$preset" ${@:+--target "$@"}
}

# llama_cpp_sources PYTHON: unpacks the Python package llama-cpp-python into build/llama_cpp, unless it is there, and
# prints the folder in it of llama.cpp: its sources and, for its tests, vocabularies and chat templates of models. PYTHON
# has pip.
llama_cpp_sources() {
  local name=llama_cpp_python-0.3.36 to=build/llama_cpp
  if [ ! -d "$to/$name" ]; then
    "$1" -m pip --quiet --disable-pip-version-check download --no-deps --no-binary llama-cpp-python --dest "$to" \
      "llama-cpp-python==${name#*-}" >&2
    mkdir -p "$to/unpacking"
    tar xzf "$to/$name.tar.gz" -C "$to/unpacking"
    mv "$to/unpacking/$name" "$to/$name"
    rmdir "$to/unpacking"
  fi
  echo "$to/$name/vendor/llama.cpp"
}
