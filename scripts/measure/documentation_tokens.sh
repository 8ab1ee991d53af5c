#!/bin/bash
# Makes token files of 20 million tokens of English out of documentation packages of Debian 12: manuals of Linux,
# Python and Perl and a dictionary, 84 MB, which are unpacked but not installed. The tokenizer is trained on them.
#
#   scripts/measure/documentation_tokens.sh DIR     leaves DIR/train.bin, DIR/validation.bin, DIR/tokenizer
set -euo pipefail
. "$(dirname "$0")/../common.sh"

packages=(linux-doc-6.1 python3.11-doc perl-doc dict-gcide)
strata=${STRATA:-build/cpu-release/strata}
directory=${1:?usage: scripts/measure/documentation_tokens.sh DIR}
mkdir -p "$directory/text"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

(cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}")
for package in "$scratch"/*.deb; do
  dpkg-deb -x "$package" "$scratch"
done
# One name for each document: what the folders are called, with dots.
find "$scratch/usr" \( -path '*/_sources/*.txt' -o -name '*.pod' \) -type f -printf '%P\0' |
  while IFS= read -r -d '' file; do
    cp "$scratch/usr/$file" "$directory/text/${file//\//.}.txt"
  done
zcat "$scratch"/usr/share/dictd/gcide.dict.dz | iconv -c -f utf-8 -t utf-8 |
  split -C 16384 -a 4 --additional-suffix=.txt - "$directory/text/gcide."

"$strata" tokenizer train "$directory/text" --output "$directory/tokenizer" --vocab-size 32000 --overwrite
"$strata" tokenize "$directory/text" --tokenizer "$directory/tokenizer" --output "$directory/train.bin" \
  --validation-output "$directory/validation.bin" --validation-fraction 0.01
