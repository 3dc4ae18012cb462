#!/usr/bin/env bash
# Measures what ordinary programs of four Linux hosts get into one, with `xoff nic` and without: four minutes. docs/benchmarks.md says how.
# Arguments go to scripts/bench_hosts.py, for example --json; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in *" --help "* | *" -h "*) exec python3 scripts/bench_hosts.py --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "bench-hosts.sh: needs root: it makes network namespaces" >&2
    exit 2
fi
scripts/install-deps.sh --bench >&2
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --package xoff >&2
exec python3 scripts/bench_hosts.py --xoff "${CARGO_TARGET_DIR:-target}/dist/xoff" "$@"
