#!/usr/bin/env bash
# Live against simulated, as programs and as hardware: the same small experiments, as a table in Markdown. As root, on a machine
# with nothing else to do. --runs N (5), --rate RATE (100M), --stall LENGTH[/EVERY[/WAKE]] (as measured), names of experiments (all).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --bin xoff >&2
exec python3 scripts/bench_simulated.py --xoff "${CARGO_TARGET_DIR:-target}/dist/xoff" "$@"
