#!/usr/bin/env bash
# Tests of scripts/test-package.sh inside the system: the package is installed, systemd runs.
set -euo pipefail

say() {
    echo "$*"
}

fail() {
    echo "failed: $*"
    systemctl status --no-pager --full 'xoff@*' 'xoff-nic@*' || true
    journalctl --no-pager --lines 40 || true
    exit 1
}

of() {
    systemctl show --property "$1" --value "$2"
}

# Waits until the host reaches the other.
reaches() {
    for _ in {1..50}; do
        ip netns exec h1 ping -c 1 -W 1 10.9.0.2 >/dev/null 2>&1 && return
        sleep 0.2
    done
    fail "the hosts do not reach each other over the switch"
}

for file in /usr/share/man/man1/xoff-run.1.gz /usr/share/bash-completion/completions/xoff /usr/share/wireshark/plugins/xoff.lua \
    /usr/share/xoff/dashboards/xoff.json /usr/share/doc/xoff/examples/minimal.toml; do
    [[ -f $file ]] || fail "$file is not there"
done
grep --quiet '^libbpf-sys ' /usr/share/doc/xoff/THIRD-PARTY || fail "the package has no licences of third-party crates"
[[ $(readelf --sections /usr/bin/xoff 2>/dev/null) != *debug_info* ]] || fail "the binary is not stripped"

for n in 1 2; do
    ip netns add h$n
    ip link add "p$n" type veth peer name eth0 netns h$n
    ip -n h$n addr add 10.9.0.$n/24 dev eth0
    ip -n h$n link set eth0 up
    cat >>/etc/xoff/lab.toml <<TOML
[[port]]
name = "p$n"
device = "p$n"
speed = "100M"
mode = "generic"
peer_response = "software"
TOML
done
ip link add nic0 type veth peer name nic1
ip link set nic0 up
ip link set nic1 up
printf '[nic]\nspeed = "100M"\n' >/etc/xoff/nic-nic0.toml
for unit in xoff@ xoff-nic@; do
    mkdir -p /etc/systemd/system/$unit.service.d
    printf '[Service]\nWatchdogSec=4\n' >/etc/systemd/system/$unit.service.d/test.conf
    # For systems where not even systemd may raise the limit of locked memory.
    prlimit --memlock=unlimited true 2>/dev/null ||
        printf 'AmbientCapabilities=CAP_IPC_LOCK\nCapabilityBoundingSet=CAP_IPC_LOCK\n' >>/etc/systemd/system/$unit.service.d/test.conf
done
systemctl daemon-reload

systemctl start xoff@lab xoff-nic@nic0 || fail "they do not start"
reaches
for unit in xoff@lab xoff-nic@nic0; do
    process=$(of MainPID $unit)
    [[ $(awk '/^Uid:/ { print $2 }' "/proc/$process/status") != 0 ]] || fail "$unit runs as root"
done
process=$(of MainPID xoff@lab)
for task in /proc/"$process"/task/*; do
    say "$(awk '/^(Name|Uid|CapEff|NoNewPrivs|Seccomp):/ { printf "%s %s  ", $1, $2 }' "$task/status")"
done
xoff status >/dev/null || fail "xoff status"
say "started, forwards, answers, and is not root"

sleep 10
for unit in xoff@lab xoff-nic@nic0; do
    [[ $(of NRestarts $unit) == 0 ]] || fail "$unit was started again though it lives"
done
dpkg --install /opt/next.deb >/dev/null || fail "upgrade"
[[ $(of MainPID xoff@lab) == "$process" ]] || fail "an upgrade ended the switch"
reaches
say "went on through an upgrade"

kill -STOP "$process"
for _ in {1..60}; do
    [[ $(of NRestarts xoff@lab) == 0 ]] || break
    sleep 0.5
done
[[ $(of NRestarts xoff@lab) != 0 ]] || fail "a switch that hangs is not started again"
reaches
say "was started again when it hung"

printf '[switch]\nhttp = "unix:/run/xoff/lab.sock"\n' >>/etc/xoff/lab.toml
systemctl restart xoff@lab || fail "restart with a socket"
xoff status --all | grep --quiet p1 || fail "no switch in /run/xoff"
say "serves at a socket"

guard=$(pgrep --parent "$(of MainPID xoff-nic@nic0)" | head -1)
kill -KILL "$(of MainPID xoff-nic@nic0)"
for _ in {1..60}; do
    [[ ! -d /proc/$guard && $(of SubState xoff-nic@nic0) == running ]] && break
    sleep 0.5
done
[[ ! -d /proc/$guard ]] || fail "the guard of a killed agent has not ended"
[[ $(of SubState xoff-nic@nic0) == running ]] || fail "a killed agent is not started again"
say "the agent was killed, its guard ended, and another obeys"

systemctl stop xoff@lab xoff-nic@nic0 || fail "stop"
tc qdisc show dev nic0 | grep --quiet htb && fail "queues of the agent are left"
[[ $(of ExecMainStatus xoff@lab) == 0 ]] || fail "the switch lost something: exit code $(of ExecMainStatus xoff@lab)"
systemctl start xoff@lab || fail "again"
files=$(dpkg --listfiles xoff)
dpkg --purge xoff >/dev/null || fail "purge"
systemctl is-active --quiet xoff@lab && fail "a switch runs without its package"
for file in $files; do
    [[ ! -f $file ]] || fail "$file is left"
done
[[ ! -e /run/xoff && ! -e /run/private/xoff ]] || fail "/run/xoff is left"
if ip -details link show p1 | grep --quiet xdp; then
    fail "an XDP program is left"
fi
say "gone with its package, and devices as they were"
say passed
