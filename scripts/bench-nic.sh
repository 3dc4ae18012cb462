#!/usr/bin/env bash
# Measures how soon a Linux host with `xoff nic` stops a class, idle and under load: half a minute. docs/benchmarks.md says how.
# Arguments go to scripts/bench_nic.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_nic.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-nic.sh: needs root: it makes network namespaces and queueing disciplines" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --package xoff >&2
exec python3 scripts/bench_nic.py --xoff "${CARGO_TARGET_DIR:-target}/dist/xoff" "$@"
