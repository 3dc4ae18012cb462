#!/usr/bin/env bash
# Checks the shell scripts with shellcheck, and the Python programs with ruff, which it installs below target/.
# `target/ruff/bin/ruff format` formats the Python programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ruff_version=0.17.6
ruff=target/ruff/bin/ruff

command -v shellcheck >/dev/null || {
    echo "lint-scripts.sh: shellcheck is missing; scripts/install-deps.sh --tests installs it" >&2
    exit 1
}
if [[ $("$ruff" --version 2>/dev/null) != "ruff $ruff_version" ]]; then
    python3 -m venv --clear target/ruff
    target/ruff/bin/pip install --quiet --disable-pip-version-check "ruff==$ruff_version"
fi

# Files without such a first line are sourced, and checked with the scripts that source them.
mapfile -t scripts < <(git grep --untracked -lE '^#!/(usr/)?bin/(env )?(ba)?sh$' -- ':!*.py' ':!*.rs')
shellcheck --external-sources --check-sourced --source-path=SCRIPTDIR --source-path=. "${scripts[@]}"
"$ruff" check --quiet
"$ruff" format --quiet --check
