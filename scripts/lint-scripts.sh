#!/usr/bin/env bash
# Checks shell scripts with shellcheck, Python programs with ruff, and their calls with pylint. Installs the latter two below
# target/.
# `target/ruff/bin/ruff format` formats the Python programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ruff_version=0.17.6
pylint_version=4.1.4
ruff=target/ruff/bin/ruff
pylint=target/ruff/bin/pylint

command -v shellcheck >/dev/null || {
    echo "lint-scripts.sh: shellcheck is missing; scripts/install-deps.sh --tests installs it" >&2
    exit 1
}
if [[ $("$ruff" --version 2>/dev/null) != "ruff $ruff_version" ]] ||
    [[ $("$pylint" --version 2>/dev/null) != "pylint $pylint_version"$'\n'* ]]; then
    python3 -m venv --clear target/ruff
    target/ruff/bin/pip install --quiet --disable-pip-version-check "ruff==$ruff_version" "pylint==$pylint_version"
fi

# Files without such a first line are sourced, and checked with the scripts that source them.
mapfile -t scripts < <(git grep --untracked -lE '^#!/(usr/)?bin/(env )?(ba)?sh$' -- ':!*.py' ':!*.rs')
shellcheck --external-sources --check-sourced --source-path=SCRIPTDIR --source-path=. "${scripts[@]}"
"$ruff" check --quiet
"$ruff" format --quiet --check
# Ruff does not compare a call's arguments with a function of another file.
calls=too-many-function-args,no-value-for-parameter,unexpected-keyword-arg,no-member,no-name-in-module
git ls-files --cached --others --exclude-standard -z 'scripts/*.py' |
    xargs -0 "$pylint" --score=n --disable=all --enable="$calls" --init-hook 'import sys; sys.path += ["scripts", "scripts/guests"]'
