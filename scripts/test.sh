#!/usr/bin/env bash
# Runs every test of the workspace: unit, property and namespace tests. Then checks that each promise of SPECIFICATION.md
# has a test that runs, here or (those of xdp/peer) in .ci/run. Arguments go to the test runner; the environment variable
# XOFF_SEED is the seed of random tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $EUID -ne 0 ]]; then
    echo "test.sh: run as root: the namespace tests make network namespaces and AF_XDP sockets" >&2
    exit 1
fi
source scripts/find-cargo.sh
scripts/install-deps.sh --tests

# One seed for all random tests of this run.
export XOFF_SEED=${XOFF_SEED:-$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')}
echo "test.sh: XOFF_SEED=$XOFF_SEED scripts/test.sh repeats this run"

# Tests disturbed by a stall of the machine run once more, and are listed in this file.
XOFF_STALLS=$(mktemp)
export XOFF_STALLS
tell() {
    echo "attempts of tests that were repeated because the machine stalled: $(wc -l <"$XOFF_STALLS")"
    cat "$XOFF_STALLS"
    rm -f "$XOFF_STALLS"
}
trap tell EXIT

# Many tests wait for time-outs and devices.
export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$(($(nproc) * 3 / 2))}
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace "$@" </dev/null
    cargo test --workspace --doc </dev/null # nextest does not run these
else
    RUST_TEST_THREADS=1 cargo test --workspace "$@" </dev/null # .config/nextest.toml says why
fi
python3 scripts/specification.py </dev/null
