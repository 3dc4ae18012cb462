#!/usr/bin/env bash
# Builds target/package/xoff.oci.tar, an OCI image from scratch: the binary with the switch alone, its libraries, the
# licences of its third-party crates, and mount points. docs/operations.md describes how to run it. Needs umoci.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh

command -v umoci >/dev/null || {
    echo "image.sh: install what is missing: apt-get install umoci" >&2
    exit 1
}
features=(--no-default-features --features switch)
cargo build --profile dist --locked --package xoff "${features[@]}"
binary=${CARGO_TARGET_DIR:-target}/dist/xoff

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umoci init --layout "$work/image"
umoci new --image "$work/image:latest"
umoci unpack --image "$work/image:latest" "$work/bundle" 2>/dev/null
root=$work/bundle/rootfs
mkdir -p "$root"/{etc/xoff,proc,run/xoff,sys,tmp,usr/bin}
objcopy --strip-debug "$binary" "$root/usr/bin/xoff"
# Each library goes to the place where the loader searches for it.
ldd "$binary" | grep -o '/[^ ]*' | while read -r library; do
    install -D --mode 755 "$(readlink --canonicalize "$library")" "$root$library"
done
scripts/third_party.py --to "$root/usr/share/doc/xoff/THIRD-PARTY" "${features[@]}"
umoci repack --image "$work/image:latest" "$work/bundle"
umoci config --image "$work/image:latest" --config.entrypoint /usr/bin/xoff --config.cmd run \
    --config.cmd /etc/xoff/xoff.toml --config.volume /etc/xoff --config.volume /run/xoff
umoci gc --layout "$work/image"
mkdir -p target/package
tar --create --file target/package/xoff.oci.tar --directory "$work/image" .
du --human-readable target/package/xoff.oci.tar
