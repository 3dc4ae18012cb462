#!/usr/bin/env bash
# Checks before a commit: docs/evidence.md, format, lints of sources and scripts, and tests of changed crates without root.
# `.ci/run` has the complete checks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh

scripts/specification.py --write
scripts/lint-scripts.sh
cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
for directory in config dataplane ebpf experiments flow-control host netlink recording sim testkit wire; do
    if [[ -n $(git status --porcelain -- "$directory") ]]; then
        cargo test --quiet --package "xoff-$directory"
    fi
done
cargo test --quiet --package xoff --test tidy --test modules
