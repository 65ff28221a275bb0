#!/usr/bin/env bash
# From a clone to an answering server: installs missing packages, builds, starts text-generation-launcher.
#
#   scripts/serve.sh [options of text-generation-launcher]
#
# Without --model-id (or MODEL_ID) it serves the bundled model and needs no network once the packages are there.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

install_packages "${BUILD_PACKAGES[@]}"
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ccache}
# Without a home, or with one that cannot be written to, what is compiled is kept in the clone.
{ mkdir -p "$CCACHE_DIR" && [ -w "$CCACHE_DIR" ]; } 2>/dev/null || export CCACHE_DIR=$PWD/build/ccache
programs=(text-generation-launcher text-generation-router text-generation-server coxswain)

[ -f build/release/build.ninja ] || cmake --preset release -DCOXSWAIN_BUILD_TESTS=OFF -DCOXSWAIN_BUILD_BENCH=OFF -Wno-dev >/dev/null
# Configures again if a CMake file has changed.
said=$(ninja -C build/release --quiet build.ninja 2>&1) || { echo "$said" >&2; exit 1; }
# A dry run stops at the build file itself where CMake looks for new files, as it does with tests; a copy is not looked after.
if ! ninja -C build/release -n -f <(cat build/release/build.ninja) "${programs[@]}" | grep -q 'no work to do'; then
  echo "Building (the first time takes some minutes) ..."
  # Ninja's own progress line: [done/all] and the time left.
  NINJA_STATUS='[%f/%t, %o/s] ' cmake --build --preset release --target "${programs[@]}"
fi

has_model=${MODEL_ID:+yes}
for argument in "$@"; do
  case $argument in --model-id | --model-id=* | -h | --help | --help-all | -V | --version) has_model=yes ;; esac
done
[ -n "$has_model" ] || set -- --model-id demo "$@"
exec build/release/bin/text-generation-launcher "$@"
