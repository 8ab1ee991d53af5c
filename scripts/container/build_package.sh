#!/bin/bash
# What both container recipes do to build: from a fresh Debian or Ubuntu, as its root, to the .deb of a preset.
#
#   scripts/container/build_package.sh PRESET DIR     leaves DIR/*.deb and what installs it
set -euo pipefail
preset=${1:?usage: build_package.sh PRESET DIR}
directory=${2:?usage: build_package.sh PRESET DIR}
cd "$(dirname "$0")/../.."
. scripts/common.sh
export DEBIAN_FRONTEND=noninteractive

# git says which commit this is, file and dpkg-dev find what the program needs.
apt-get update -qq
apt-get install -qq -y --no-install-recommends git file dpkg-dev >/dev/null
scripts/install_dependencies.sh
# The files may be somebody else's, as far as git can see from here.
git -C / config --global --add safe.directory "$PWD"
rm -rf "build/$preset"
build "$preset" strata
cpack --config "build/$preset/CPackConfig.cmake" -B "build/$preset/packages"
mkdir -p "$directory"
mv "build/$preset"/packages/*.deb "$directory"
cp scripts/container/install_package.sh "$directory"
