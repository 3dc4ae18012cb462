#!/usr/bin/env bash
# Measures what forwarding costs at a steady load, and what it adds to a frame's way, for xoff, Open vSwitch and the kernel
# bridge: about five minutes. docs/benchmarks.md says what is measured and how.
# Arguments go to scripts/bench_load.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_load.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-load.sh: needs root: it makes network namespaces and AF_XDP sockets" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --package xoff >&2
exec python3 scripts/bench_load.py --xoff "${CARGO_TARGET_DIR:-target}/dist/xoff" "$@"
