#!/bin/bash
# What both container recipes do to install: the .deb beside this file, and what starts ranks. Removes the folder.
set -euo pipefail
directory=$(cd "$(dirname "$0")" && pwd)
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends "$directory"/*.deb openmpi-bin openssh-client >/dev/null
rm -rf "$directory" /var/lib/apt/lists/*
