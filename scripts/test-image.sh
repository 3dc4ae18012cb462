#!/usr/bin/env bash
# Tests the unpacked OCI image: its switch forwards between two hosts with only the capabilities in docs/operations.md, with
# a read-only root, in a temporary network namespace. Needs root, crun and umoci.
#
#   scripts/test-image.sh [FILE.oci.tar]     default: that of scripts/image.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

capabilities=CAP_NET_ADMIN,CAP_NET_RAW,CAP_BPF,CAP_IPC_LOCK

fail() {
    echo "test-image.sh: $*" >&2
    exit 1
}

image=${1-}
if [[ -z $image ]]; then
    scripts/image.sh
    image=target/package/xoff.oci.tar
fi
# Mounts and devices are in private namespaces, which end before the directory is removed.
if [[ -z ${XOFF_WORK-} ]]; then
    work=$(mktemp -d)
    trap 'rm -r --force --one-file-system "$work"' EXIT
    XOFF_WORK=$work unshare --mount --net --pid --fork --kill-child bash "$PWD/scripts/test-image.sh" "$image"
    exit
fi
work=$XOFF_WORK
mkdir "$work/image" "$work/etc"
tar --extract --file "$image" --directory "$work/image"
umoci unpack --image "$work/image:latest" "$work/bundle" 2>/dev/null
grep --quiet '^libbpf-sys ' "$work/bundle/rootfs/usr/share/doc/xoff/THIRD-PARTY" || fail "it has no licences of third-party crates"
ip link set lo up
mount -t cgroup2 cgroup /sys/fs/cgroup # crun does not support hybrid hierarchies
mount -t tmpfs names /run/netns 2>/dev/null || { mkdir -p /run/netns && mount -t tmpfs names /run/netns; }
for n in 1 2; do
    ip netns add h$n
    ip link add "p$n" type veth peer name eth0 netns h$n
    ip -n h$n addr add 10.9.0.$n/24 dev eth0
    ip -n h$n link set eth0 up
    printf '[[port]]\nname = "p%s"\ndevice = "p%s"\nspeed = "100M"\npeer_response = "software"\n' $n $n >>"$work/etc/xoff.toml"
done
# The command of docs/operations.md, with this network namespace.
python3 - "$work" "$capabilities" <<'PYTHON'
import json, sys

work, capabilities = sys.argv[1], sys.argv[2].split(",")
path = f"{work}/bundle/config.json"
config = json.load(open(path))
process = config["process"]
process["capabilities"] = {name: capabilities for name in ("bounding", "effective", "permitted")}
process["noNewPrivileges"], process["terminal"] = True, False
config["root"]["readonly"] = True
linux = config["linux"]
linux["namespaces"] = [namespace for namespace in linux["namespaces"] if namespace["type"] in ("pid", "ipc", "uts", "mount")]
config["mounts"] += [
    {"destination": "/run/xoff", "type": "tmpfs", "source": "xoff"},
    {"destination": "/etc/xoff", "type": "bind", "source": f"{work}/etc", "options": ["bind", "ro"]},
]
json.dump(config, open(path, "w"))
PYTHON
crun --root "$work/crun" --cgroup-manager=disabled run --bundle "$work/bundle" xoff >"$work/log" 2>&1 &
switch=$!
for _ in {1..100}; do
    ip netns exec h1 ping -c 1 -W 1 10.9.0.2 >/dev/null 2>&1 && break
    kill -0 "$switch" 2>/dev/null || fail "it ended: $(cat "$work/log")"
    sleep 0.1
done
ip netns exec h1 ping -q -c 3 10.9.0.2 >/dev/null || fail "its hosts do not reach each other: $(cat "$work/log")"
crun --root "$work/crun" kill xoff TERM
wait "$switch" || fail "it ended with $?: $(cat "$work/log")"
echo passed
