#!/usr/bin/env bash
# Checks the fabric of up.sh, and prints what it observed. Exits with 1 if a check failed.
# Packages: iputils-ping, traceroute, iputils-tracepath, iperf3.
#
# TCP is paced below the line rate, because the kernel of h1 does not obey pauses of class 3. With `xoff nic` at eth0 it would.
set -u
# shellcheck source=names.sh
. "$(dirname "$0")/names.sh"
failed=0
say() { printf '\n== %s\n' "$*"; }
must() { "$@" || { echo "FAILED: $*"; failed=1; }; }
# within SECONDS COMMAND...: repeats a command until it succeeds.
within() {
  local end=$((SECONDS + $1)); shift
  until "$@" > /dev/null 2>&1; do [ $SECONDS -lt "$end" ] || return 1; sleep 0.1; done
}
has_two() { [ "$(at "$1" ip "$2" route show "$3" | grep -c 'nexthop via')" = 2 ]; }
two_paths() { # for IPv4 and IPv6, at both leaves
  has_two leaf1 -4 10.2.3.0/24 && has_two leaf1 -6 2001:db8:2:3::/64 &&
    has_two leaf2 -4 10.1.1.0/24 && has_two leaf2 -6 2001:db8:1:1::/64
}
say "two paths to each of the other leaf's networks, IPv4 and IPv6"
must within 60 two_paths
sleep 1 # until the last station is known

say ping
for from in h1 h2; do
  for to in 10.2.3.2 10.2.4.2 2001:db8:2:3::2 2001:db8:2:4::2; do must at $from ping -q -c3 -i0.05 -W2 $to; done
done
say "traceroute: leaf1, a spine, leaf2, the host"
for to in 10.2.3.2 2001:db8:2:3::2; do
  # Each hop gets three probes, and must answer one.
  hops=$(at h1 traceroute -n -q3 -w2 -I $to | awk 'NR > 1 { at = "*"; for (i = NF; i > 1; i--) if ($i ~ /[.:].*[.:]/) at = $i; printf "%s ", at }')
  echo "$hops"
  case $hops in *'*'*) must false ;; esac
  must [ "$(wc -w <<< "$hops")" = 4 ]
done
say "path MTU discovery: the link leaf2-h4 has an MTU of 1400"
for to in 10.2.4.2 2001:db8:2:4::2; do must [ "$(at h2 tracepath -n $to | sed -n 's/.*Resume: pmtu \([0-9]*\).*/\1/p')" = 1400 ]; done
say "TCP in class 3 (DSCP 24), sixteen connections: both spines carry it, and nothing lossless is lost"
mkdir -p "$state/h3"
at h3 iperf3 -s -1 -D -I "$state/h3/iperf3.pid" > /dev/null
within 5 at h3 sh -c "ss -ltn | grep -q :5201"
sent() { # prints the number of frames that leaf1 sent to a spine in class 3
  status_of leaf1 --json | /usr/bin/python3 -c '
import json, sys
ports = json.load(sys.stdin)["ports"]
print(next(port["classes"][3]["tx_frames"] for port in ports if port["name"] == sys.argv[1]))' "$1"
}
before=$(sent spine1)/$(sent spine2)
must at h1 iperf3 -c 10.2.3.2 -t 2 -P 16 --fq-rate 8M -S 96 > "$state/iperf3.log"
tail -5 "$state/iperf3.log"
for spine in spine1 spine2; do
  case $spine in spine1) was=${before%/*} ;; *) was=${before#*/} ;; esac
  must [ $(($(sent $spine) - was)) -gt 100 ]
done
pingers=()
pings_begin() { # starts pings between all hosts, IPv4 and IPv6
  local from to
  rm -rf "$state/pings"
  mkdir -p "$state/pings"
  for from in h1 h2; do
    for to in 10.2.3.2 10.2.4.2 2001:db8:2:3::2 2001:db8:2:4::2; do
      # The deadline ends the pings of a killed check.
      ip netns exec "$prefix$from" ping -n -D -i 0.02 -w 600 -Q 96 $to > "$state/pings/$from-$to" &
      pingers+=($!)
    done
  done
}
pings_end() { # pings_end SECONDS LONGEST_GAP: fails unless each ping got answers for SECONDS, with no gap above LONGEST_GAP
  local log end
  end=$(date +%s.%N)
  kill -INT "${pingers[@]}"
  wait "${pingers[@]}"
  pingers=()
  for log in "$state"/pings/*; do
    awk -v name="${log##*/}" -v over="$1" -v longest="$2" -v end="$end" '
      /bytes from/ { t = substr($1, 2) + 0; if (!first) first = t; if (last && t - last > gap) gap = t - last; last = t }
      /transmitted/ { lost = $0 }
      END { if (end - last > gap) gap = end - last
        printf "%-18s longest gap %4.0f ms; %s\n", name, gap * 1000, lost; exit gap > longest || last - first < over }' "$log" || must false
  done
}
say "leaf1 loses its link to spine1 for three seconds, while all hosts ping each other by IPv4 and IPv6"
pings_begin
sleep 1
ports leaf1 ip link set spine1 down
sleep 3
must [ "$(at leaf1 ip route show 10.2.3.0/24 | grep -c 'via')" = 1 ]
ports leaf1 ip link set spine1 up
must within 30 two_paths
sleep 1
pings_end 4 2.5 # less than the 3 s without the link
say "spine1's bgpd is killed and restarted, then its zebra is restarted, during the same pings and TCP in class 3"
one_path() { [ "$(at leaf1 ip route show 10.2.3.0/24 | grep -c 'via')" = 1 ]; }
at_spine() { at spine1 ip route show 10.2.3.0/24 | grep -q via && at spine1 ip -6 route show 2001:db8:2:3::/64 | grep -q via; }
bgp_is_connected() { sh_of spine1 -c "show zebra client summary" | grep -q ^bgp; }
ended() { ! kill -0 "$1" 2> /dev/null; }
at h3 iperf3 -s -1 -D -I "$state/h3/iperf3.pid" > /dev/null
within 5 at h3 sh -c "ss -ltn | grep -q :5201"
pings_begin
# Without a shell in between, so that $! is the process that gets SIGINT. 600 s are longer than all waits below.
ip netns exec "${prefix}h1" iperf3 -c 10.2.3.2 -t 600 -P 16 --fq-rate 4M -S 96 > "$state/iperf3.log" &
load=$!
sleep 2
# SIGKILL gives bgpd no time to close its sessions. The leaves notice that its connections end.
pid=$(cat "$state/spine1/bgpd.pid")
kill -KILL "$pid"
must within 30 one_path
must within 30 ended "$pid"
daemon spine1 bgpd
configure spine1
must within 60 two_paths
must within 60 at_spine
sleep 2
# Routes stay in the kernel when zebra ends.
must kill -0 $load
pid=$(cat "$state/spine1/zebra.pid")
kill "$pid"
must within 30 ended "$pid"
must at_spine
daemon spine1 zebra
configure spine1
must within 60 bgp_is_connected
must within 60 at_spine
must within 60 two_paths
must kill -0 $load
kill -INT $load
wait $load
must grep -q 'SUM.*sender' "$state/iperf3.log"
tail -5 "$state/iperf3.log"
sleep 2
pings_end 8 5
say "the switches"
for router in $routers; do
  status_of "$router" --json > "$state/$router/status.json" || must false
  /usr/bin/python3 - "$router" "$state/$router/status.json" <<'P' || must false
import json, sys
status = json.load(open(sys.argv[2]))
lossless = [c for p in status["ports"] for c in p["classes"] if c["class"] == 3]
drops = {}
for c in lossless:
    for reason, count in c["drops"].items():
        if count: drops[reason] = drops.get(reason, 0) + count
forwarded = {p["name"]: sum(c["tx_frames"] for c in p["classes"]) for p in status["ports"]}
print(sys.argv[1], "sent", forwarded, "class 3 dropped", drops, "routes", status["router"]["routes_v4"], status["router"]["routes_v6"])
# Only frames on the link that went down may be lost; and at spine1, whose routes ended with its daemon, frames that the leaves still sent
# to it and that exceeded the rate limit of frames to its kernel (unroutable).
may_be = {"link_down"} | ({"unroutable"} if sys.argv[1] == "spine1" else set())
sys.exit(any(reason not in may_be for reason in drops))
P
done
[ $failed = 0 ]
