#!/bin/bash
# Builds the packages of strata and uses them where nothing was installed to build it.
#
#   scripts/check_package.sh          makes both for the CPU, and uses the tarball in a root that holds glibc, a shell and
#                                     nothing else
#   scripts/check_package.sh --deb    also the .deb, in Debian's smallest system (mmdebstrap), where the quick start is
#                                     run, of STEPS steps if that is set, and ranks of what the recipes of containers
#                                     add, Debian's MPI; lintian looks at it if it is there
#   scripts/check_package.sh --cuda   makes both for GPUs; in that root the tarball's program must name the library of
#                                     CUDA that it lacks, and with those of the toolkit it is used, on the CPU
#
# To be used is to name the commit, to train on text, and to continue a prompt. Without user namespaces, or the right of
# root to make others, the packages are only made. STRATA_CUDA_ARCHITECTURES says which GPUs those for GPUs are for.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

deb=false kind=cpu
case ${1:-} in
  '') ;;
  --deb) deb=true ;;
  --cuda) kind=cuda ;;
  *) echo "usage: scripts/check_package.sh [--deb|--cuda]" >&2; exit 2 ;;
esac

stage() { printf '\n== %s\n' "$*"; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# inside ROOT COMMAND...: runs a command with ROOT as its whole file system, as root of it.
inside() {
  local root=$1 namespaces=(--mount)
  shift
  [ "$(id -u)" -eq 0 ] || namespaces+=(--map-root-user)
  mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
  # shellcheck disable=SC2016  # the inner shell expands it
  unshare "${namespaces[@]}" bash -c '
    root=$1; shift
    for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
    exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp "$@"' - "$root" chroot "$root" "$@"
}

# package PRESET: builds the packages of a preset, and says which file there is now.
package() {
  build "$1" strata >&2
  rm -rf "build/$1/packages"
  cpack --config "build/$1/CPackConfig.cmake" -B "$PWD/build/$1/packages" >&2
  find "build/$1/packages" -maxdepth 1 -type f \( -name '*.deb' -o -name '*.tar.gz' \)
}

scripts/install_dependencies.sh
scripts/english_text.sh data/english

stage 'tarball'
tarball=$(package "$kind-portable")
ls -l "$tarball"
root=$scratch/root
mkdir -p "$root/opt"
download() {
  (cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root libc6 busybox-static)
}
if ! download 2>/dev/null; then  # package lists that are missing or out of date
  as_root apt-get update -qq
  download
fi
for file in "$scratch"/*.deb; do dpkg-deb -x "$file" "$root"; done
for folder in bin lib lib64; do  # distributions whose packages know /usr alone
  [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
done
for name in sh cat grep head tail; do ln -s busybox "$root/bin/$name"; done
tar -xzf "$tarball" -C "$root/opt" --strip-components=1
cp -r data/english "$root/text"

cat > "$root/use.sh" <<'END'
set -eu
export PATH=/opt/bin:$PATH LD_LIBRARY_PATH=/libraries
strata --version
cd /tmp
strata tokenizer train /text --vocab-size 1024 --output tokenizer
strata tokenize /text --tokenizer tokenizer --output train.bin --validation-output val.bin --validation-fraction 0.05
strata train /opt/share/strata/configs/quickstart.json --set run.steps=40 --set optimizer.warmup_steps=4 \
  --set schedule.sub_batches=1 --set run.eval_batches=4 --set data.train=train.bin --set data.validation=val.bin \
  --output run
strata generate run --tokenizer tokenizer --prompt 'The file ' --max-tokens 20
END
stage '.deb'
deb_file=$(package "$kind-release")
dpkg-deb --info "$deb_file" | tee "$scratch/info"
grep -q '^ Depends: .*libspdlog' "$scratch/info"
if [ "$kind" = cuda ]; then
  grep -q '^ Recommends: .*libcublas-[0-9]' "$scratch/info"
fi
dpkg-deb --contents "$deb_file" | awk '{print $6}' | grep -E '^\./usr/(bin/strata|share/man/man1/strata-train\.1.*)$' |
  awk 'END { if (NR != 2) { print "the .deb lacks the program or its manual"; exit 1 } }'

if ! unshare --mount true 2>/dev/null && ! unshare --mount --map-root-user true 2>/dev/null; then
  echo 'skipped: no root of its own can be made here (unshare --mount is refused), so the packages were only made'
  exit 0
fi

if [ "$kind" = cuda ]; then
  stage 'the program of the tarball, without the libraries of CUDA'
  code=0
  inside "$root" sh /use.sh 2>&1 | tee "$scratch/said" || code=$?
  [ "$code" -eq 127 ]
  grep -q 'loading shared libraries: libcublasLt[.]so[.][0-9]*: ' "$scratch/said"
  mkdir "$root/libraries"
  ldd build/cuda-portable/strata | awk '$1 ~ /^lib(cublas|cudnn)/ {print $3}' | xargs cp -L -t "$root/libraries"
fi

stage 'the program of the tarball, beside glibc and a shell'
inside "$root" sh /use.sh | tee "$scratch/said"
commit=$(cmake -DSOURCE="$PWD" -DHEADER="$scratch/commit.h" -P scripts/cmake/write_commit.cmake &&
  sed 's/.*"\(.*\)"/\1/' "$scratch/commit.h")
grep -q "^commit  *$commit\$" "$scratch/said" || { echo "--version does not name commit $commit" >&2; exit 1; }
awk '/"event":"step"/ { match($0, /"loss":[0-9.]+/); loss = substr($0, RSTART + 7, RLENGTH - 7)
                        if (!n++) first = loss }
     END { printf "loss %s in the first of %d steps, %s in the last\n", first, n, loss
           exit !(n == 40 && loss < first - 0.5) }' "$root/tmp/run/metrics.jsonl"
find "$root/opt" -name '*.schema.json' -o -name 'strata-train.1*' -o -name _strata -o -name LICENSE |
  awk 'END { if (NR != 4) { print "the tarball lacks a text of its own"; exit 1 } }'
$deb || exit 0

if command -v lintian >/dev/null; then
  # The packager's address is not set here.
  lintian --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$deb_file"
fi

stage 'the program of the .deb, in the smallest Debian'
system=build/minbase.tar
if [ ! -f "$system" ]; then
  # shellcheck disable=SC1091
  mmdebstrap --quiet --variant=minbase --format=tar "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$system.tmp"
  mv "$system.tmp" "$system"
fi
root=$scratch/debian
mkdir "$root"
owner=--same-owner
[ "$(id -u)" -eq 0 ] || owner=--no-same-owner
tar -xf "$system" -C "$root" --exclude './dev/*' "$owner"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/packages"
cp "$deb_file" scripts/container/install_package.sh "$root/packages"
mkdir -p "$root/strata/data"
cp -r scripts configs "$root/strata"
cp -r data/english "$root/strata/data"
cat > "$root/use.sh" <<'END'
set -euo pipefail
echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/sandbox
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends /packages/*.deb >/dev/null
for tool in c++ g++ cc gcc clang cmake python3; do
  if command -v "$tool"; then exit 1; fi
done
strata --version
STRATA=strata /strata/scripts/quickstart.sh
if strata --version | grep -q '^MPI  *[0-9]'; then
  /packages/install_package.sh  # the step of the container recipes
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  mpirun -np 2 --bind-to none strata train /strata/configs/tiny-cpu.json --set run.steps=5 2>&1 | tee /tmp/ranks
  grep -q ', 2 ranks$' /tmp/ranks
  grep -q 'done: 5 of 5 steps' /tmp/ranks
fi
END
inside "$root" env STEPS="${STEPS:-}" bash /use.sh | tee "$scratch/said"
grep -q "^commit  *$commit\$" "$scratch/said"
grep -q '^passed' "$scratch/said"
