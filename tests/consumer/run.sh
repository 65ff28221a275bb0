#!/usr/bin/env bash
# The library as its users have it: installs it below build/, moves it, and builds programs outside of the tree against it.
#
#   tests/consumer/run.sh [BUILD]       the build folder to install from (build/release)
#
# The consumer beside this script is built by CMake with the shared and with the static library, and by pkg-config with each; then
# everything in examples/ is built and run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build/release}
work=$root/build/install-test
model=$root/models/demo
rm -rf "$work"
mkdir -p "$work"
cd "$work"

launcher=() cmake_launcher=()
if command -v ccache >/dev/null; then
  launcher=(ccache)
  cmake_launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi

# Installed in one place, used in another: nothing may know where it was made.
cmake --install "$build" --prefix "$work/first" --component library >install.log
mv first moved
prefix=$work/moved
lib=$(dirname "$prefix"/lib*/libcoxswain.so)

# A prefix that has the archive alone, so that -lcoxswain is the archive.
cp -r moved archive
rm archive/lib*/libcoxswain.so*

# by_cmake FOLDER NAME [CMake arguments]: configures and builds the project in FOLDER into NAME.
by_cmake() {
  { cmake -S "$1" -B "$2" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" "${cmake_launcher[@]}" "${@:3}" && cmake --build "$2"; } \
    >"$2.log" 2>&1 || { cat "$2.log"; return 1; }
}

# by_pkg_config NAME PREFIX [--static]: builds main.cc into NAME.
by_pkg_config() {
  local flags libs
  export PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(echo "$2"/lib*/pkgconfig)
  flags=$(pkg-config --cflags "${@:3}" coxswain)
  libs=$(pkg-config --libs "${@:3}" coxswain)
  # shellcheck disable=SC2086  # several words
  "${launcher[@]}" "${CXX:-c++}" -std=c++20 $flags -c "$here/main.cc" -o "$1.o"
  # shellcheck disable=SC2086
  "${CXX:-c++}" "$1.o" -o "$1" -Wl,-rpath,"$lib" $libs
}

# prints PATTERN PROGRAM [arguments]: it ends well, and the pattern fits all that it prints.
prints() {
  local text
  text=$("${@:2}") || { echo "$2: exit status $?"; return 1; }
  # shellcheck disable=SC2053  # a pattern
  [[ $text == $1 ]] || { echo "$2 prints: $text"; return 1; }
  echo "$(basename "$2"): ok"
}

by_cmake "$here" shared -DLINK=shared
by_cmake "$here" static -DLINK=static
by_pkg_config pkg-config-shared "$prefix"
by_pkg_config pkg-config-static "$work/archive" --static
for kind in shared static; do
  prints '*42' "$kind/consumer" "$model"
  prints '*42' "./pkg-config-$kind" "$model"
  # The static ones need no libcoxswain.so, the shared ones do.
  for program in "$kind/consumer" "./pkg-config-$kind"; do
    needed=$(readelf -d "$program" | grep -c 'NEEDED.*libcoxswain' || true)
    [ "$needed" = "$([ $kind = shared ] && echo 1 || echo 0)" ] || { echo "$program needs libcoxswain.so: $needed"; exit 1; }
  done
done

by_cmake "$root/examples" examples
prints $'*42\n*' examples/c_api "$model"
prints '*42' "$root/examples/c_api.py" "$lib/libcoxswain.so" "$model"
prints $'*42\n*' examples/streaming_with_cancel "$model"
prints $'*\n*11\n*42' examples/stepper "$model"
prints $'1: *42\n2: *Coxswain.\n3: I am a*' examples/manager_loop "$model"
prints $'*42 *\n*\n*11 *\n*\nthe same answer' examples/sessions "$model"
prints $'without digits: *\nas always: *42' examples/logits_processor "$model"
prints $'-> get_weather {"city": "Oslo"}\nIt is 4 degrees*' examples/tools "$model"
echo "installed, moved, used by CMake, pkg-config, C, C++ and Python"
