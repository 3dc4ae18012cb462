#!/usr/bin/env bash
# Boots virtual machines with NICs of every model that QEMU emulates, and checks the promises of docs/drivers.md: a
# quarter of an hour without KVM. Unpacks Debian packages into target/guests, and installs none.
# Arguments go to scripts/guests, for example drivers --model igb --kernel 6.12; --help lists them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=scripts
case " $* " in *" --help "* | *" -h "*) exec python3 scripts/guests --help ;; esac
if [[ $EUID -ne 0 ]]; then
    echo "test-guests.sh: needs root: it makes network namespaces and TAP devices" >&2
    exit 2
fi
scripts/install-deps.sh --tests >&2
source scripts/find-cargo.sh
# The profile of scripts/test.sh: tests in guests do not measure speed.
cargo build --locked --quiet --workspace --bin xoff >&2
mkdir -p target/guests
cargo test --locked --quiet --workspace --no-run --test host --test wire --message-format json >target/guests/tests.json
python3 scripts/guests "$@" --fetch
# Private namespaces for network and processes: their end removes devices and guests in any case.
exec unshare --net --pid --fork --kill-child --mount-proc \
    python3 scripts/guests --xoff "${CARGO_TARGET_DIR:-target}/debug/xoff" "$@"
