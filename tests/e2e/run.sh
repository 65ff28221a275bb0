#!/usr/bin/env bash
# The tests of the whole: real clients, real launcher, real processes.
#
#   tests/e2e/run.sh [pytest arguments]      for example: tests/e2e/run.sh -k golden
#
# Makes one Python virtual environment for each client (they exclude one another) and one for pytest below build/e2e; they
# are made again only if their requirements change.
#
# Environment: COXSWAIN_BIN_DIR   folder of the programs            (build/release/bin)
#              COXSWAIN_DATA      reference data; tests that need it skip without
#              PYTHON             interpreter of the environments   (python3)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
venvs=$root/build/e2e
export COXSWAIN_BIN_DIR=${COXSWAIN_BIN_DIR:-$root/build/release/bin}
export COXSWAIN_E2E_VENVS=$venvs

for program in text-generation-launcher text-generation-router text-generation-server; do
  [ -x "$COXSWAIN_BIN_DIR/$program" ] || { echo "$COXSWAIN_BIN_DIR/$program is missing: build the release preset first" >&2; exit 1; }
done

# make_venv NAME: from requirements-NAME.txt, under a temporary name until it is whole.
make_venv() {
  local name=$1 folder=$venvs/venv-$1 file=$here/requirements-$1.txt key
  key=$({ "$python" -VV; cat "$file"; echo "$folder"; } | sha256sum | cut -d' ' -f1)
  [ "$(cat "$folder/key" 2>/dev/null)" = "$key" ] && return 0
  echo "making $folder"
  rm -rf "$folder"
  "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$file"
  echo "$key" >"$folder/key"
}

mkdir -p "$venvs"
for name in pytest text-generation huggingface-hub openai; do make_venv "$name"; done

cd "$here"
exec "$venvs/venv-pytest/bin/python" -B -m pytest -p no:cacheprovider "$@"
