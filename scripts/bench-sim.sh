#!/usr/bin/env bash
# Measures how fast the simulator is, and its memory: a permutation on fat-trees of 4, 8 and 16 ports, each in a process of its own,
# one core, a minute. docs/benchmarks.md says what is measured and how. --json: as JSON; --seed N: another permutation than 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seed=1 format=text
while (($#)); do
    case $1 in
        --json) format=json ;;
        --seed) seed=${2:?--seed needs a number} && shift ;;
        *)
            sed -n '2,3s/^# //p' "$0"
            [[ $1 == --help || $1 == -h ]]
            exit
            ;;
    esac
    shift
done
source scripts/find-cargo.sh
cargo build --profile dist --locked --quiet --package xoff-sim --example permutation >&2
runs=()
for k in 4 8 16; do
    runs+=("$("${CARGO_TARGET_DIR:-target}/dist/examples/permutation" "$k" "$seed")")
done
if [[ $format == json ]]; then
    (IFS=, && echo "{\"runs\":[${runs[*]}]}")
else
    printf '%s\n' "${runs[@]}"
fi
