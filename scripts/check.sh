#!/usr/bin/env bash
# Everything that a change must pass, cheap things first. Installs what is missing; needs no other preparation.
#
#   scripts/check.sh            what CI runs
#   scripts/check.sh --full     clang-tidy over all files, 30 s per fuzz target
#   scripts/check.sh --only STAGE[,STAGE...]   for example: --only format,layers
#
# Environment: COXSWAIN_DATA  unpacked reference data (otherwise prepared from ../shared/data, if that is there)
#              CCACHE_DIR     compiler cache, kept outside the clone
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
source scripts/packages.sh

full=0 only=""
while [ $# -gt 0 ]; do
  case $1 in
    --full) full=1 ;;
    --only) only=$2; shift ;;
    *) echo "usage: scripts/check.sh [--full] [--only STAGE,...]" >&2; exit 2 ;;
  esac
  shift
done

export COXSWAIN_SOURCE_DIR=$root
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$root/tests/tsan.supp:halt_on_error=1"
jobs=$(nproc)
log_dir=$root/build/check-logs
mkdir -p "$log_dir"
passed=0 failed=0 report=""

# stage NAME FUNCTION: runs it, keeps its log, prints the end of the log of a failure.
stage() {
  local name=$1 run=$2 begin=$SECONDS log=$log_dir/$1.log
  if [ -n "$only" ] && [[ ",$only," != *",$name,"* ]]; then return; fi
  printf '== %-12s ' "$name"
  if "$run" >"$log" 2>&1; then
    passed=$((passed + 1)); printf 'ok      %4d s   %s\n' $((SECONDS - begin)) "$(tail -n 1 "$log" | cut -c1-100)"
  else
    failed=$((failed + 1)); printf 'FAILED  %4d s   (log: %s)\n' $((SECONDS - begin)) "${log#"$root"/}"
    tail -n 60 "$log"
  fi
  report+=$(printf '%-12s %5d s' "$name" $((SECONDS - begin)))$'\n'
}

sources() { git ls-files --cached --others --exclude-standard '*.cc' '*.h' | grep -v '^third_party/'; }

packages() { install_packages "${BUILD_PACKAGES[@]}" "${CHECK_PACKAGES[@]}" && echo "all there"; }

prepare_data() {
  if [ -n "${COXSWAIN_DATA:-}" ]; then echo "COXSWAIN_DATA=$COXSWAIN_DATA"; return 0; fi
  local shared=$root/../shared/data out=$root/build/data
  if [ ! -f "$shared/prepare.py" ]; then
    [ "${CI:-}" = true ] && { echo "CI needs the reference data beside the clone"; return 1; }
    echo "no reference data beside the clone: tests that need it will skip"; return 0
  fi
  [ -d "$out" ] || { python3 "$shared/prepare.py" "$out.part" && mv "$out.part" "$out"; } || return 1
  echo "prepared in build/data"
}

format() { sources | xargs clang-format-16 --dry-run -Werror && echo "$(sources | wc -l) files"; }

layers() { python3 scripts/check_layers.py "$root"; }

# The grammars that make the demo model's training data, and the rules that judge its answers.
demo_data() { python3 tools/demo_model/test_tasks.py; }

# Every header alone. src/kernels/cpu/*/ holds fragments instead: they are included inside an anonymous namespace of files with flags of one
# instruction set, and may include C headers only.
own_headers() { sources | grep '\.h$' | grep -v '^src/kernels/cpu/.*/'; }
headers() {
  own_headers | xargs -P "$jobs" -I{} sh -c 'g++ -std=c++20 -Iinclude -Isrc -Itests -fsyntax-only -Wall -Wextra -x c++ -include {} /dev/null || { echo "does not compile alone: {}"; exit 255; }' &&
    echo "$(own_headers | wc -l) headers"
}

build() { cmake --preset "$1" -DCOXSWAIN_BUILD_TESTS=ON -Wno-dev >/dev/null && cmake --build --preset "$1" -- -j "$jobs" && echo "built"; }
build_release() { build release; }
unit_tests() { ctest --preset release -j "$jobs" | tail -n 40; return "${PIPESTATUS[0]}"; }

conformance() {
  [ -n "${COXSWAIN_DATA:-}" ] || { echo "skipped: no reference data"; return 0; }
  build/release/bin/coxswain-conformance --data "$COXSWAIN_DATA"
}

build_asan() { build asan; }
test_asan() { ctest --preset asan -j "$jobs" | tail -n 40; return "${PIPESTATUS[0]}"; }

tsan_modules="base telemetry batch http supervise rpc"
thread_sanitizer() {
  cmake --preset tsan -Wno-dev >/dev/null || return 1
  local targets=() names="" module
  for module in $tsan_modules; do targets+=("coxswain_${module}_test"); names+="${names:+|}$module"; done
  cmake --build --preset tsan --target "${targets[@]}" -- -j "$jobs" && ctest --preset tsan -R "^($names)\$" -j "$jobs"
}

tidy() {
  local files base
  if [ $full -eq 1 ]; then
    files=$(sources | grep '\.cc$')
  else
    base=$(git merge-base HEAD origin/main 2>/dev/null || true)
    [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse HEAD~1 2>/dev/null || git rev-parse HEAD)
    files=$(git diff --name-only --diff-filter=d "$base" -- '*.cc'; git ls-files --others --exclude-standard '*.cc')
  fi
  files=$(echo "$files" | grep -v -e '^tests/fuzz/' -e '^$' | sort -u)
  [ -z "$files" ] && { echo "no changed files"; return 0; }
  # Flags that only g++ knows are dropped for clang.
  mkdir -p build/tidy && sed -e 's/ -fno-tree-[a-z-]*//g; s/-Wno-maybe-uninitialized//g; s/-Wno-restrict//g' \
    build/release/compile_commands.json >build/tidy/compile_commands.json
  echo "$files" | xargs -P "$jobs" -n 1 clang-tidy-16 -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option &&
    echo "$(echo "$files" | wc -l) files"
}

fuzz() {
  cmake --preset fuzz -Wno-dev >/dev/null && cmake --build --preset fuzz --target fuzz_targets -- -j "$jobs" || return 1
  local seconds=10 target corpus
  [ $full -eq 1 ] && seconds=30
  for target in build/fuzz/bin/fuzz_*; do
    corpus=tests/fuzz/corpus/$(basename "$target")
    mkdir -p "build/fuzz/corpus/$(basename "$target")" "$corpus"
    "$target" -max_total_time=$seconds -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=10 -print_final_stats=0 -verbosity=0 \
      -artifact_prefix=build/fuzz/ "build/fuzz/corpus/$(basename "$target")" "$corpus" || return 1
    echo "$(basename "$target"): no finding in $seconds s"
  done
}

processes() { bash tests/e2e/run.sh; }

stage packages packages
stage data prepare_data
if [ -z "${COXSWAIN_DATA:-}" ] && [ -d "$root/build/data" ]; then export COXSWAIN_DATA=$root/build/data; fi
stage format format
stage layers layers
stage headers headers
stage demo-data demo_data
stage build build_release
stage tests unit_tests
stage conformance conformance
stage processes processes
stage asan-build build_asan
stage asan test_asan
stage tsan thread_sanitizer
stage tidy tidy
stage fuzz fuzz

printf '\nwhere the time went\n%s\n%d s in all\n' "$report" "$SECONDS"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
