#!/usr/bin/env bash
# Everything that a change must pass, cheap things first. Installs what is missing; needs no other preparation.
#
#   scripts/check.sh            what CI runs
#   scripts/check.sh --full     both sanitizers and clang-tidy over everything, 30 s per fuzz target from a new random seed, longer
#                               random runs: 10,000 seeds of the simulation, 10^6 operations against naive models, a million
#                               requests, 500 documents for each operation of the API, clients that are large or a year old
#   scripts/check.sh --only STAGE[,STAGE...]   for example: --only format,layers
#
# What is costly to make is kept outside the clone and known by its content, so that a fresh clone in which nothing changed is checked
# in minutes: objects and syntax checks in the compiler cache, files without clang-tidy findings and Python environments beside it.
#
# Environment: COXSWAIN_DATA  unpacked reference data (otherwise prepared from ../shared/data, if that is there)
#              CCACHE_DIR     compiler cache and what is kept beside it
set -uo pipefail
cd "$(dirname "$0")/.." || exit
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
passed=0 failed=0 report="" faults=""

# findings N LINES LOG: the first N places of a log that say what failed, and the lines behind each.
findings() {
  grep -n -m "$1" -A "$2" "$3" -E \
    -e ': Failure$|^FAILED: |^(==[0-9]+==)?(ERROR|WARNING): [A-Za-z]+Sanitizer|runtime error:|\*\*\*(Failed|Timeout|Exception)' \
    -e '^broken property: |: (fatal )?error: |^FAILED tests/|^E  '
}

# stage NAME FUNCTION: runs it, keeps its log, prints the end of the log of a failure.
stage() {
  local name=$1 run=$2 begin=$SECONDS log=$log_dir/$1.log
  if [ -n "$only" ] && [[ ",$only," != *",$name,"* ]]; then return; fi
  printf "== %-13s " "$name"
  if "$run" >"$log" 2>&1; then
    passed=$((passed + 1)); printf 'ok      %4d s   %s\n' $((SECONDS - begin)) "$(tail -n 1 "$log" | cut -c1-100)"
  else
    failed=$((failed + 1)); printf 'FAILED  %4d s   (log: %s)\n' $((SECONDS - begin)) "${log#"$root"/}"
    # What failed is said where it failed, above the rest of a long log, and begins again at the end of all.
    findings 20 12 "$log"
    tail -n 60 "$log"
    faults+=$(printf '\n%s\n%s' "$name" "$(findings 3 7 "$log")")$'\n'
  fi
  report+=$(printf '%-13s %5d s' "$name" $((SECONDS - begin)))$'\n'
}

sources() { git ls-files --cached --others --exclude-standard '*.cc' '*.h' | grep -v '^third_party/'; }

packages() {
  local names=("${BUILD_PACKAGES[@]}" "${CHECK_PACKAGES[@]}")
  [ $full -eq 1 ] && names+=("${FULL_CHECK_PACKAGES[@]}")
  install_packages "${names[@]}" && echo "all there"
}

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

# Comments that a re-flow tore, long lines, files above 800 lines.
form() { python3 scripts/check_form.py; }

layers() { python3 scripts/check_layers.py "$root"; }

# The grammars that make the demo model's training data, and the rules that judge its answers.
demo_data() { python3 tools/demo_model/test_tasks.py; }

# configure PRESET: with the tests, also where serve.sh has left them out; the fuzz preset has none. With UCX, but for one
# preset that is the build without.
configure() {
  local tests=ON ucx=ON
  [ "$1" = fuzz ] && tests=OFF
  [ "$1" = asan ] && ucx=OFF
  cmake --preset "$1" -DCOXSWAIN_BUILD_TESTS=$tests -DCOXSWAIN_UCX=$ucx -Wno-dev >/dev/null
}

# Every header alone (cmake/CoxswainHeaders.cmake): nothing but the check of its syntax comes of it.
headers() { configure release && cmake --build --preset release --target headers -- -j "$jobs" -k 0 && echo "each compiles alone"; }

build() { configure "$1" && cmake --build --preset "$1" -- -j "$jobs" && echo "built"; }
build_release() { build release; }
unit_tests() { ctest --preset release --no-tests=error -j "$jobs"; }

conformance() {
  [ -n "${COXSWAIN_DATA:-}" ] || { echo "skipped: no reference data"; return 0; }
  build/release/bin/coxswain-conformance --data "$COXSWAIN_DATA" || return 1
  # Weights of every stored form once more, as they come out of files of packed weights.
  local kept
  kept=$(mktemp -d) || return 1
  build/release/bin/coxswain-conformance quant --data "$COXSWAIN_DATA" --weights-cache-dir "$kept"
  local rc=$?
  rm -rf "$kept"
  return "$rc"
}

# sanitized PRESET MODULE...: builds the tests of these modules, all of them with --full.
sanitized() {
  configure "$1" || return 1
  [ $full -eq 1 ] && { cmake --build --preset "$1" -- -j "$jobs"; return; }
  cmake --build --preset "$1" --target "${@:2}" -- -j "$jobs"
}
test_sanitized() {
  local those
  those=$(IFS='|'; echo "${*:2}")
  [ $full -eq 1 ] && those='.*'
  ctest --preset "$1" --no-tests=error -R "^($those)\$" -j "$jobs"
}
targets() { printf 'coxswain_%s_test ' "$@"; }

# Whoever reads what strangers send, or says where data lies, is looked at for memory; whoever has threads for their order.
asan_modules="base json gguf tensor tokenizer chat grammar reply request sampling kernels weights model kvcache kvstore kvspill
  runner batch http rpc api router hub"
tsan_modules="base telemetry batch grammar http supervise rpc library manager fleet membership serve_router"
# Of the runner, those in which engines and replicas meet while weights arrive.
tsan_runner_tests="LiveFleet.*:*CountedOn*:ArrivingRunner.*:SplitPrompts.*"
# Tests of one thread are nothing to the thread sanitizer, and these are long. Of the second list's another form runs.
of_one_thread="Gbnf.*:Lark.*:Rules.*:Hostile.*:JsonSchema.*:Goldens.*:Pattern.*:Regex.*:TextAhead.*:AdaptiveTest.*:Beam*:Faults.*:\
Invariance.*:LatencyTarget.*:PausedTier.TokensAre*:SchedulerModel.*:Simulation.*:SixteenClients.*:There/HandoverProtocolOrders.*"
long_of_threads="LibraryBeams.AnswersAre*:Windows/WindowsKept.WhatTheCacheHasLost*/0:Windows/WindowsKept.WhatTheCacheHasLost*/1:\
Windows/WindowsKept.WhatTheCacheHasLost*/3"
# The same bits for each model, draft and weight type, and every order of events: half an hour of the address sanitizer. It sees
# the same code in the tests of the same files that stay; values are the unit tests' matter.
long_of_values="Families/Law1Drafts.*:Families/Law1Beams.*:Families/Law1.InChunks*:Families/Law1.EachSequence*:Law1Data.*:Law1Types.*:\
Law1Windows.LimitsAndSinkTokens:Law1BeamsTypes.*:Law1Grammar.*:ResumeText.*:Invariance.WindowsAndPrefixes:Invariance.PoliciesAndChunks:\
There/HandoverProtocolOrders.EveryOrderOfEvents/0:There/HandoverProtocolOrders.EveryOrderOfEvents/1:\
Attention.ChunksAndThreadsDoNotChangeARow"
# shellcheck disable=SC2046,SC2086  # names without blanks
build_asan() { sanitized asan $(targets $asan_modules); }
# shellcheck disable=SC2086
test_asan() {
  [ $full -eq 1 ] && { test_sanitized asan; return; }
  COXSWAIN_SCHEDULER_OPERATIONS=20000 GTEST_FILTER=-$long_of_values test_sanitized asan $asan_modules
}
# shellcheck disable=SC2046,SC2086
thread_sanitizer() {
  local without=$of_one_thread
  [ $full -eq 1 ] || without+=:$long_of_threads
  sanitized tsan $(targets $tsan_modules runner) && GTEST_FILTER=-$without test_sanitized tsan $tsan_modules || return 1
  [ $full -eq 1 ] || GTEST_FILTER=$tsan_runner_tests test_sanitized tsan runner
}

# Needs what the build has generated.
thread_safety() { configure release && python3 scripts/thread_safety.py -j "$jobs"; }

tidy() {
  local files base
  if [ $full -eq 1 ]; then
    files=$(sources | grep '\.cc$')
  else
    base=$(git merge-base HEAD origin/main 2>/dev/null || true)
    [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse HEAD~1 2>/dev/null || git rev-parse HEAD)
    files=$(git diff --name-only --diff-filter=d "$base" -- '*.cc'; git ls-files --others --exclude-standard '*.cc')
  fi
  files=$(echo "$files" | grep -v -e '^tests/fuzz/' -e '^scripts/' -e '^$' | sort -u)
  [ -z "$files" ] && { echo "no changed files"; return 0; }
  # Worth the time that it takes to install them.
  [ "$(echo "$files" | wc -l)" -gt 20 ] && { install_packages "${FULL_CHECK_PACKAGES[@]}" || return 1; }
  # shellcheck disable=SC2086  # names without blanks
  python3 scripts/tidy.py -j "$jobs" $files
}

# fuzz_target TARGET SECONDS SEED: 0 is a random seed.
fuzz_target() {
  local name=${1##*/} found=build/fuzz/corpus/${1##*/}
  [ "$3" -eq 0 ] || { found=build/fuzz/fixed/$name && rm -rf "$found"; }
  mkdir -p "$found" "tests/fuzz/corpus/$name"
  "$1" -max_total_time="$2" -seed="$3" -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=25 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="build/fuzz/$name-" "$found" "tests/fuzz/corpus/$name" >"$log_dir/$name.log" 2>&1 &&
    { echo "$name: no finding in $2 s"; return 0; }
  tail -n 40 "$log_dir/$name.log"
  echo "$name: FINDING; repeat it with the file build/fuzz/$name-..., whose bytes stand above as Base64"
  return 255
}
export -f fuzz_target
export log_dir

# Without --full the seed is fixed and only the committed corpus is read: the same code meets nearly the same inputs everywhere, so that
# a change answers for what it broke. Looking further is for --full and longer runs (docs/fuzzing.md).
fuzz() {
  local seconds=10 seed=1
  [ $full -eq 1 ] && seconds=30 seed=0
  configure fuzz && cmake --build --preset fuzz --target fuzz_targets -- -j "$jobs" || return 1
  printf '%s\n' build/fuzz/bin/fuzz_* | xargs -P "$jobs" -I{} bash -c 'fuzz_target "$@"' - {} "$seconds" "$seed"
}

# The unit tests run seeds 1 to 500 of this test. A range is a process, so that one that hangs costs its own hour at most.
simulation() {
  local first ranges=()
  for ((first = 1; first <= 9501; first += 500)); do ranges+=("$first-$((first + 499))"); done
  printf '%s\n' "${ranges[@]}" | xargs -P "$jobs" -I{} env COXSWAIN_SIMULATION_SEEDS={} timeout 3600 \
    build/release/bin/coxswain_batch_test --gtest_brief=1 '--gtest_filter=Simulation.*' && echo "10000 seeds"
}

# The unit tests run a tenth of it.
kv_cache() {
  COXSWAIN_KVCACHE_OPERATIONS=1000000 build/release/bin/coxswain_kvcache_test --gtest_brief=1 '--gtest_filter=KvCacheRandom.*' &&
    echo "1000000 operations"
}

scheduler() {
  COXSWAIN_SCHEDULER_OPERATIONS=1000000 timeout 3600 build/release/bin/coxswain_batch_test --gtest_brief=1 \
    '--gtest_filter=SchedulerModel.*' && echo "1000000 operations"
}

# Memory, blocks and idle time behind very many requests.
soak() {
  local n=5000
  [ $full -eq 1 ] && n=1000000
  timeout 3600 build/release/bin/coxswain-bench-soak models/demo-draft --requests $n
}

# The installed library and the examples, outside of the tree.
consumer() { bash tests/consumer/run.sh; }

# One test has its own limit, which says where it hangs; this one is for what comes before and between them.
processes() {
  local seconds=1800
  [ $full -eq 1 ] && seconds=3600 && export COXSWAIN_FULL=1 COXSWAIN_SCHEMATHESIS_EXAMPLES=500 COXSWAIN_E2E_LIMIT=3000
  timeout --signal INT --kill-after 60 $seconds bash tests/e2e/run.sh
}

stage packages packages
stage data prepare_data
if [ -z "${COXSWAIN_DATA:-}" ] && [ -d "$root/build/data" ]; then export COXSWAIN_DATA=$root/build/data; fi
stage format format
stage form form
stage layers layers
stage headers headers
stage demo-data demo_data
stage build build_release
stage thread-safety thread_safety
stage tests unit_tests
stage install consumer
stage soak soak
[ $full -eq 1 ] && stage simulation simulation
[ $full -eq 1 ] && stage scheduler scheduler
[ $full -eq 1 ] && stage kv-cache kv_cache
stage conformance conformance
stage processes processes
stage asan-build build_asan
stage asan test_asan
stage tsan thread_sanitizer
stage tidy tidy
stage fuzz fuzz

[ -z "$faults" ] || printf '\nwhat failed\n%s' "$faults"
printf '\nwhere the time went\n%s\n%d s in all\n' "$report" "$SECONDS"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
