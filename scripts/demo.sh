#!/usr/bin/env bash
# Installs missing packages, builds, and runs the demo: about 20 seconds of traffic through a congested switch in
# temporary namespaces. Arguments go to `xoff demo`, for example --json.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
    echo "scripts/demo.sh: needs root: it makes network namespaces and AF_XDP sockets. Run it with sudo." >&2
    exit 2
fi
source scripts/find-cargo.sh
command -v cargo >/dev/null || { echo "scripts/demo.sh: no cargo: install a Rust toolchain (1.88 or newer)." >&2; exit 2; }
scripts/install-deps.sh >&2
cargo build --release --locked --package xoff >&2
exec "${CARGO_TARGET_DIR:-target}/release/xoff" demo "$@"
