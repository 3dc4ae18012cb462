#!/usr/bin/env bash
# A look before a commit, in a minute or two: format, lints, and the tests of the crates that differ from the last commit
# and need no root. `.ci/run` is what has to pass in the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh

cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
packages=(--package xoff --test tidy --test modules)
for manifest in */Cargo.toml */*/Cargo.toml; do
    directory=$(dirname "$manifest")
    [[ $directory == netns-tests || $directory == fuzz ]] && continue
    if [[ -n $(git status --porcelain -- "$directory/src" "$directory/tests") ]]; then
        cargo test --quiet --package "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -1)" --lib
    fi
done
cargo test --quiet "${packages[@]}"
