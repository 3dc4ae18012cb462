#!/usr/bin/env bash
# Measures how fast a running switch sends and obeys pauses: a quarter of a minute. docs/benchmarks.md says how.
# Arguments go to scripts/bench_pause.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_pause.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-pause.sh: needs root: it makes network namespaces and AF_XDP sockets" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --package xoff >&2
exec python3 scripts/bench_pause.py --xoff "${CARGO_TARGET_DIR:-target}/dist/xoff" "$@"
