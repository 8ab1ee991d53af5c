#!/bin/bash
# Collects plain English prose from documentation packages of Debian or Ubuntu: about 4 MB of text
# out of 10 MB of packages, which are unpacked but not installed.
#
#   scripts/english_text.sh DIR     leaves DIR/*.txt; does nothing if they are there
set -euo pipefail
. "$(dirname "$0")/common.sh"

# In Debian 12 and Ubuntu 24.04 alike: the first is written in pod, the second in AsciiDoc.
packages=(perl-doc git-doc)

directory=${1:?usage: scripts/english_text.sh DIR}
if [ -e "$directory/complete" ]; then
  exit 0
fi
rm -rf "$directory"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Downloaded, not installed: minimal systems leave documentation out when they install.
download() {
  (cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}")
}
if ! download 2>/dev/null; then  # package lists that are missing or out of date
  as_root apt-get update -qq
  download
fi
for package in "$scratch"/*.deb; do
  dpkg-deb -x "$package" "$scratch"
done

# Keeps paragraphs of running text, one a line: markup is unwrapped; code, tables, headings and lists
# are left out. A new file begins after 16 KiB, so that all documents are of one size.
prose() {
  sed -E 's/[[:space:]]+$//' | LC_ALL=C awk -v directory="$directory" -v name="$1" '
    # A piece of pod markup such as C<code> or L<text|target> gives way to what a reader sees.
    function unwrap(text,    seen, inner) {
      seen = ""
      while (match(text, /[BCEFILS]<+[^<>]*>+/)) {
        inner = substr(text, RSTART + 1, RLENGTH - 1)
        gsub(/^<+ ?| ?>+$/, "", inner)
        sub(/\|.*/, "", inner)
        sub(/^\//, "", inner)
        seen = seen substr(text, 1, RSTART - 1) inner
        text = substr(text, RSTART + RLENGTH)
      }
      return seen text
    }
    BEGIN { RS = "" }
    /^[ \t=+|]/ || /[^ -~\n\t]/ { next }
    {
      gsub(/[ \t\n]+/, " ")
      gsub(/X<[^<>]*>/, "")
      $0 = unwrap(unwrap($0))
      gsub(/linkgit:|[`*_]/, "")
      if (length($0) < 120 || !/^[A-Z]/ || !/[.!?:)]$/) next
      symbols = $0
      gsub(/[A-Za-z ,.]/, "", symbols)
      if (length(symbols) > 0.05 * length($0)) next
      if (file == "" || bytes > 16384) {
        if (file != "") close(file)
        file = sprintf("%s/%s-%03d.txt", directory, name, ++files)
        bytes = 0
      }
      print $0 "\n" > file
      bytes += length($0) + 2
    }'
}

# Two files are left out that list rather than tell.
find "$scratch" -name '*.pod' ! -name perltoc.pod ! -name perluniprops.pod -print0 |
  LC_ALL=C sort -z | xargs -0 cat | prose perl
find "$scratch/usr/share/doc/git-doc" -name '*.txt' -print0 |
  LC_ALL=C sort -z | xargs -0 cat | prose git

bytes=$(cat "$directory"/*.txt | wc -c)
if [ "$bytes" -lt 2500000 ]; then
  echo "english_text.sh: only $bytes bytes of prose in ${packages[*]}" >&2
  exit 1
fi
touch "$directory/complete"
echo "$bytes bytes of English prose from ${packages[*]} in $(find "$directory" -name '*.txt' | wc -l) files"
