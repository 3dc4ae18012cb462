#!/usr/bin/env bash
# Before a commit: docs/evidence.md, format, lints of sources and scripts, and those tests of changed crates that need no root.
# `.ci/run` is what has to pass in the end.
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
