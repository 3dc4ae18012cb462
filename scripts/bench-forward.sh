#!/usr/bin/env bash
# Compares how fast xoff, Open vSwitch, DPDK testpmd, the kernel bridge and a loop on the crate xsk-rs forward
# between two veth pairs, in one run, in turns: about ten minutes. With --workers 2: how xoff scales; with --routed: routers.
# docs/benchmarks.md says what is measured and how. Arguments go to scripts/bench_forward.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_forward.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-forward.sh: needs root: it makes network namespaces, control groups and AF_XDP sockets" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
# One by one: what the benchmark is built with is then no part of the switch.
cargo build --profile dist --locked --quiet --package xoff >&2
cargo build --profile dist --locked --quiet --package xoff-xdp --example bench >&2
built=${CARGO_TARGET_DIR:-target}/dist
exec python3 scripts/bench_forward.py --xoff "$built/xoff" --bench "$built/examples/bench" "$@"
