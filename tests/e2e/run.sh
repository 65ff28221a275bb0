#!/usr/bin/env bash
# The tests of the whole: real clients, real launcher, real processes.
#
#   tests/e2e/run.sh [pytest arguments]      for example: tests/e2e/run.sh -k golden
#
# Makes one Python virtual environment for each client (they exclude one another) and one for pytest. They are kept beside the
# compiler cache under a name made of their requirements, so that every clone finds them; unused ones go after 30 days.
#
# Environment: COXSWAIN_FULL      1: also clients that are large or a year old, as scripts/check.sh --full sets it
#              COXSWAIN_BIN_DIR   folder of the programs            (build/release/bin)
#              COXSWAIN_DATA      reference data; tests that need it skip without
#              PYTHON             interpreter of the environments   (python3)
#              COXSWAIN_E2E_LIMIT seconds that one test may take    (300)
#              CCACHE_DIR         the environments are its folder `venvs`
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
source "$root/scripts/packages.sh"
python=${PYTHON:-python3}
names=(pytest text-generation huggingface-hub openai anthropic ollama litellm langchain agents stock-protocol otlp schemathesis kubernetes)
# What runs with the newest clients runs with those of 2025, too.
full_names=(langchain-huggingface llama-index lm-eval quantized text-generation-2025 huggingface-hub-2025 openai-2025 anthropic-2025 ollama-2025
  litellm-2025 langchain-2025 langchain-huggingface-2025 llama-index-2025)
kept=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}/venvs
export COXSWAIN_BIN_DIR=${COXSWAIN_BIN_DIR:-$root/build/release/bin}

for program in text-generation-launcher text-generation-router text-generation-server text-generation-benchmark; do
  [ -x "$COXSWAIN_BIN_DIR/$program" ] || { echo "$COXSWAIN_BIN_DIR/$program is missing: build the release preset first" >&2; exit 1; }
done

# make_venv FOLDER NAME: from requirements-NAME.txt; whole once it has its mark.
make_venv() {
  local folder=$1/venv-$2
  [ -e "$folder/whole" ] && return 0
  echo "making $folder"
  rm -rf "$folder"
  "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$here/requirements-$2.txt"
  touch "$folder/whole"
}

# make_venvs NAME...: sets `venvs` to their folder.
make_venvs() {
  local name
  venvs=$kept/$({ "$python" -VV; echo "$kept"; for name; do cat "$here/requirements-$name.txt"; done; } | sha256sum | cut -c1-16)
  mkdir -p "$venvs"
  (
    flock --wait 900 9  # another clone may be making them
    for name; do make_venv "$venvs" "$name"; done
    touch "$venvs"
    find "$kept" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +
  ) 9>"$kept/lock"
}

if [ "${COXSWAIN_FULL:-}" = 1 ]; then
  make_venvs "${full_names[@]}"
  export COXSWAIN_E2E_FULL_VENVS=$venvs
fi
make_venvs "${names[@]}"
export COXSWAIN_E2E_VENVS=$venvs

export COXSWAIN_E2E_NGINX=$kept/nginx
(
  flock --wait 900 9
  unpack_package nginx "$COXSWAIN_E2E_NGINX"
  touch "$COXSWAIN_E2E_NGINX"
) 9>"$kept/lock"

cd "$here"
exec "$venvs/venv-pytest/bin/python" -B -m pytest -p no:cacheprovider "$@"
