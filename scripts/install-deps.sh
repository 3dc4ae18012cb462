#!/usr/bin/env bash
# Installs missing Debian packages: those for the build, and with --tests or --bench also those for tests or benchmarks.
# Prints nothing if none is missing.
set -euo pipefail

build=(clang gcc libc6-dev libelf-dev llvm make pkg-config zlib1g-dev)
tests=(
    chromium chromium-driver curl ethtool frr iperf iperf3 iproute2 iputils-ping iputils-tracepath libpcap-dev lldpd m4 mininet
    openmpi-bin procps prometheus python3 python3-jsonschema python3-mpi4py python3-pip python3-pytest python3-scapy python3-selenium
    python3-venv python3-yaml redis-server redis-tools shellcheck tcpdump traceroute tshark util-linux
)
bench=(dpdk dpdk-dev iproute2 m4 openvswitch-switch python3 util-linux valgrind)

case "${1-}" in
"") wanted=("${build[@]}") ;;
--tests) wanted=("${build[@]}" "${tests[@]}") ;;
--bench) wanted=("${build[@]}" "${bench[@]}") ;;
*)
    echo "usage: scripts/install-deps.sh [--tests | --bench]" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null; then
    echo "install-deps.sh: no apt-get here; install what corresponds to: ${wanted[*]}" >&2
    exit 1
fi

missing=()
for package in "${wanted[@]}"; do
    status=$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $EUID -ne 0 ]]; then
    echo "install-deps.sh: run as root to install: ${missing[*]}" >&2
    exit 1
fi

echo "install-deps.sh: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2 </dev/null
apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" </dev/null
