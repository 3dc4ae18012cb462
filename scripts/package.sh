#!/usr/bin/env bash
# Builds target/package/xoff_VERSION_ARCH.deb, and a package with debug symbols. cli/Cargo.toml lists its files; manual
# pages and completions come from the command line, licences of third-party crates from their sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh

cargo_deb=3.8.0
made=$PWD/target/package

if [[ $(cargo deb --version 2>/dev/null) != "$cargo_deb" ]]; then
    cargo install --quiet --locked "cargo-deb@$cargo_deb"
fi
cargo build --profile dist --locked --package xoff --bin xoff
binary=${CARGO_TARGET_DIR:-target}/dist/xoff

rm -rf "$made"
mkdir -p "$made/completions"
scripts/third_party.py --to "$made/THIRD-PARTY"
"$binary" manual --out "$made/man"
gzip --best --no-name "$made"/man/*.1
"$binary" completions bash >"$made/completions/xoff"
"$binary" completions zsh >"$made/completions/_xoff"
"$binary" completions fish >"$made/completions/xoff.fish"
cargo deb --quiet --no-build --profile dist --package xoff --dbgsym --output "$made/"
ls "$made"/*.*deb
