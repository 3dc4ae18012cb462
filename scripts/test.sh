#!/usr/bin/env bash
# Runs every test: unit, property and namespace tests. Arguments go to the test runner.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $EUID -ne 0 ]]; then
    echo "test.sh: run as root: the namespace tests make network namespaces and AF_XDP sockets" >&2
    exit 1
fi
source scripts/find-cargo.sh
scripts/install-deps.sh --tests

if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace "$@" </dev/null
    cargo test --workspace --doc </dev/null # nextest does not know these
else
    cargo test --workspace "$@" </dev/null
fi
