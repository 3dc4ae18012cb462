#!/usr/bin/env bash
# Live against simulated: the same small experiments on this machine and in the simulator, as a table in Markdown. As root, on a machine
# with nothing else to do. --runs N (5), --rate RATE (100M), --policy A,B.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh
cargo build --release --locked --quiet --bin xoff >&2
exec python3 scripts/bench_simulated.py --xoff "${CARGO_TARGET_DIR:-target}/release/xoff" "$@"
