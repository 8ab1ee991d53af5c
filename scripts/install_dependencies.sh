#!/bin/bash
# Installs what building strata needs on Debian 12 or Ubuntu 24.04. Does nothing, and needs neither
# root nor network, if everything is there.
set -euo pipefail
. "$(dirname "$0")/common.sh"

packages=(
  g++ cmake ninja-build ccache
  catch2 libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev libzstd-dev
  libopenmpi-dev openmpi-bin
)

# Tools may have come another way than as packages.
declare -A command_of=([g++]=g++ [cmake]=cmake [ninja-build]=ninja [ccache]=ccache [openmpi-bin]=mpirun)

missing=()
for package in "${packages[@]}"; do
  command=${command_of[$package]:-}
  if [ -n "$command" ] && command -v "$command" >/dev/null; then
    continue
  fi
  if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
    missing+=("$package")
  fi
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi
