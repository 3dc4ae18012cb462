#!/usr/bin/env bash
# Compares how fast xoff, Open vSwitch, DPDK testpmd and the kernel bridge forward between two veth
# pairs, in one run, in turns: about four minutes. docs/benchmarks.md says what is measured and how.
# Arguments go to scripts/bench_forward.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_forward.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-forward.sh: needs root: it makes network namespaces, control groups and AF_XDP sockets" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
cargo build --release --locked --quiet --package xoff >&2
exec python3 scripts/bench_forward.py --xoff "${CARGO_TARGET_DIR:-target}/release/xoff" "$@"
