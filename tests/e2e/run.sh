#!/usr/bin/env bash
# The tests of the whole: real clients, real launcher, real processes.
#
#   tests/e2e/run.sh [pytest arguments]      for example: tests/e2e/run.sh -k golden
#
# Makes one Python virtual environment for each client (they exclude one another) and one for pytest. They are kept beside the
# compiler cache under a name made of their requirements, so that every clone finds them; unused ones go after 30 days.
#
# Environment: COXSWAIN_BIN_DIR   folder of the programs            (build/release/bin)
#              COXSWAIN_DATA      reference data; tests that need it skip without
#              PYTHON             interpreter of the environments   (python3)
#              CCACHE_DIR         the environments are its folder `venvs`
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
names="pytest text-generation huggingface-hub openai anthropic ollama litellm langchain agents stock-protocol otlp schemathesis"
kept=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}/venvs
key=$({ "$python" -VV; echo "$kept"; for name in $names; do cat "$here/requirements-$name.txt"; done; } | sha256sum | cut -c1-16)
venvs=$kept/$key
export COXSWAIN_BIN_DIR=${COXSWAIN_BIN_DIR:-$root/build/release/bin}
export COXSWAIN_E2E_VENVS=$venvs

for program in text-generation-launcher text-generation-router text-generation-server; do
  [ -x "$COXSWAIN_BIN_DIR/$program" ] || { echo "$COXSWAIN_BIN_DIR/$program is missing: build the release preset first" >&2; exit 1; }
done

# make_venv NAME: from requirements-NAME.txt; whole once it has its mark.
make_venv() {
  local folder=$venvs/venv-$1
  [ -e "$folder/whole" ] && return 0
  echo "making $folder"
  rm -rf "$folder"
  "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$here/requirements-$1.txt"
  touch "$folder/whole"
}

mkdir -p "$venvs"
(
  flock 9  # another clone may be making them
  for name in $names; do make_venv "$name"; done
  touch "$venvs"
  find "$kept" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +
) 9>"$kept/lock"

cd "$here"
exec "$venvs/venv-pytest/bin/python" -B -m pytest -p no:cacheprovider "$@"
