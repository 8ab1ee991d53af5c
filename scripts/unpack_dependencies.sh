#!/bin/bash
# Unpacks the libraries that building strata needs into DIR, without root and without installing anything: for machines
# of Debian or Ubuntu whose administrator has not installed them. Compiler, CMake and MPI are not among them.
#
#   scripts/unpack_dependencies.sh DIR     afterwards cmake ... -DCMAKE_PREFIX_PATH=DIR/usr -DSTRATA_TESTS=OFF
set -euo pipefail

packages=(libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev libzstd-dev)

directory=${1:?usage: scripts/unpack_dependencies.sh DIR}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Headers name libraries that other packages hold, whose names differ between releases.
mapfile -t libraries < <(apt-cache depends "${packages[@]}" |
  awk '$1 == "Depends:" && $2 ~ /^(lib(spdlog|fmt|zstd)[0-9.]+|zlib1g)/ && $2 !~ /-dev$/ { print $2 }' | sort -u)
(cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}" "${libraries[@]}")
for package in "$scratch"/*.deb; do
  dpkg-deb -x "$package" "$directory"
done
# What names its target by a path from the root means one in here.
find "$directory" -type l -lname '/*' | while read -r link; do
  target=$(readlink "$link")
  [ ! -e "$directory$target" ] || ln -sf "$directory$target" "$link"
done
echo "unpacked ${packages[*]} ${libraries[*]} into $directory/usr"
