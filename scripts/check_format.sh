#!/bin/bash
# Checks the layout of all sources with the pinned clang-format; --fix changes them instead. The version
# counts: others lay the same rules out differently.
set -euo pipefail
cd "$(dirname "$0")/.."

pinned=18.1.8
format=${CLANG_FORMAT:-clang-format}
if ! "$format" --version 2>/dev/null | grep -qF "version $pinned"; then
  echo "check_format: needs clang-format $pinned (pip install clang-format==$pinned); CLANG_FORMAT names it" >&2
  exit 2
fi

mode=(--dry-run -Werror)
if [ "${1:-}" = --fix ]; then
  mode=(-i)
fi
find include src kernels tests scripts -type f -regex '.*\.\(h\|cpp\|cu\|cuh\|js\)' -print0 |
  xargs -0 "$format" "${mode[@]}"
