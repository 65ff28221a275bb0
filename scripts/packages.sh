# Debian 12 packages, sourced by serve.sh, check.sh and tests/e2e/run.sh.
#
# install_packages NAME...: installs the ones that are missing, with sudo if we are not root, and says which.
# unpack_package NAME FOLDER: its files alone, for a program that would become a service of the machine if it were installed.

BUILD_PACKAGES=(
  cmake ninja-build g++ ccache pkg-config
  libboost1.81-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libcli11-dev libcurl4-openssl-dev libedit-dev libssl-dev
  libpcre2-dev libsimdjson-dev libutf8proc-dev libxxhash-dev libzstd-dev zlib1g-dev
)
CHECK_PACKAGES=(
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
  clang-16 clang-format-16 clang-tidy-16 libclang-rt-16-dev
  python3 python3-venv git curl openssl etcd-server iproute2 libucx-dev
)
# For checks of many files: what makes clang-tidy fast (scripts/tidy_scope.cc).
FULL_CHECK_PACKAGES=(
  libclang-16-dev llvm-16-dev
)

install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Please install as root: apt-get install ${missing[*]}" >&2; return 1; }
    as_root=(sudo)
  fi
  echo "Installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  # --no-remove: libboost1.81-dev conflicts with libboost1.74-dev, and removing a user's packages is not ours to decide.
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends --no-remove "${missing[@]}" >/dev/null; then
    echo "apt-get could not install them. If it wants to remove libboost1.74-dev, remove that package first" >&2
    echo "(libboost1.81-dev cannot be installed beside it), then run this script again." >&2
    return 1
  fi
}

unpack_package() {
  [ -d "$2" ] && return 0
  echo "Unpacking the Debian package $1"
  rm -rf "$2.part" && mkdir -p "$2.part" || return 1
  if ! (cd "$2.part" && apt-get download -qq "$1" && dpkg -x "$1"_*.deb . && rm "$1"_*.deb); then
    echo "apt-get could not download it. If its lists are old, run apt-get update, then this script again." >&2
    return 1
  fi
  mv "$2.part" "$2"
}
