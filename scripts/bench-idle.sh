#!/usr/bin/env bash
# Measures how much of a core an idle switch takes, how soon it runs, and its memory: half a minute. docs/benchmarks.md says how.
# Arguments go to scripts/bench_idle.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_idle.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-idle.sh: needs root: it makes network namespaces and AF_XDP sockets" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --package xoff >&2
exec python3 scripts/bench_idle.py --xoff "${CARGO_TARGET_DIR:-target}/dist/xoff" "$@"
