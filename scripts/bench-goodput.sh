#!/usr/bin/env bash
# Measures how much of a congested line is used where peers are slow to go on after a pause: a minute. docs/benchmarks.md says how.
# Arguments go to scripts/bench_goodput.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_goodput.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-goodput.sh: needs root: it makes network namespaces and AF_XDP sockets" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --package xoff >&2
exec python3 scripts/bench_goodput.py --xoff "${CARGO_TARGET_DIR:-target}/dist/xoff" "$@"
