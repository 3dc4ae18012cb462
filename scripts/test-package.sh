#!/usr/bin/env bash
# Tests the Debian package on a fresh, booted Debian 12: it installs, its units are sandboxed as intended, and a switch and
# a host's agent forward. They survive an upgrade, restart after a hang, and are removed with the package. Takes minutes;
# needs root.
#
#   scripts/test-package.sh [FILE.deb]     default: that of scripts/package.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exposure_most=2.0
tools=(debootstrap dpkg-dev systemd systemd-container)
inside=(ca-certificates dbus iproute2 iputils-ping procps systemd systemd-sysv)

fail() {
    echo "test-package.sh: $*" >&2
    exit 1
}

[[ $EUID -eq 0 ]] || fail "run it as root"
for tool in "${tools[@]}"; do
    dpkg-query --show "$tool" >/dev/null 2>&1 || fail "install what is missing: apt-get install ${tools[*]}"
done

package=${1-}
if [[ -z $package ]]; then
    scripts/package.sh
    package=$(ls target/package/xoff_*.deb)
fi

for unit in packaging/*.service; do
    exposure=$(systemd-analyze security --offline=true "$unit" 2>/dev/null | sed -n 's/.*Overall exposure level for .*: \([0-9.]*\) .*/\1/p')
    echo "$unit: exposure $exposure"
    awk -v is="$exposure" -v most="$exposure_most" 'BEGIN { exit !(is != "" && is <= most) }' ||
        fail "$unit: systemd-analyze security says $exposure, and at most $exposure_most is promised"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
# The mirror and proxy of this machine's apt.
mirror=$(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE)" 'Created-By: Packages' | awk '$2 == "bookworm" { print $1; exit }')
[[ -n $mirror ]] || fail "this machine's apt has no sources of Debian 12 (bookworm)"
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
export http_proxy
debootstrap --variant=minbase --include="$(IFS=,; echo "${inside[*]}")" bookworm "$root" "$mirror" >"$work/debootstrap.log" ||
    fail "debootstrap: $(tail -3 "$work/debootstrap.log")"

# A newer package, to upgrade to.
dpkg-deb --raw-extract "$package" "$work/next"
sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
dpkg-deb --root-owner-group --build "$work/next" "$work/next.deb" >/dev/null

install --mode 644 "$package" "$root/opt/xoff.deb"
install --mode 644 "$work/next.deb" "$root/opt/next.deb"
install --mode 755 scripts/test-package-inside.sh "$root/opt/test"
cat >"$root/etc/systemd/system/test.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=append:/opt/log
StandardError=inherit
ExecStart=-/opt/test
ExecStopPost=/bin/systemctl --no-block poweroff
[Install]
WantedBy=graphical.target
UNIT
chroot "$root" apt-get install --quiet=2 --yes /opt/xoff.deb >"$work/install.log" 2>&1 || fail "install: $(tail -5 "$work/install.log")"
ln --symbolic --force ../test.service "$root/etc/systemd/system/multi-user.target.wants/test.service"
sed -i 's/^After=.*/After=dbus.service/' "$root/etc/systemd/system/test.service"
timeout 300 systemd-nspawn --quiet --register=no --keep-unit --boot --directory "$root" --private-network --capability=all \
    --system-call-filter='bpf perf_event_open @privileged @keyring' --console=pipe >"$work/boot.log" 2>&1 </dev/null || true
cat "$root/opt/log"
[[ $(tail -1 "$root/opt/log") == passed ]] || fail "what was tried inside did not pass; it booted so: $(tail -20 "$work/boot.log")"
