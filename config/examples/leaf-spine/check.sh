#!/usr/bin/env bash
# What has to work in the fabric that up.sh made. Prints what was seen; ends with 1 where something did not work.
# Packages: iputils-ping, traceroute, iputils-tracepath, iperf3.
#
# TCP is paced below the line: h1's own kernel does not know what a pause of class 3 is. With `xoff nic` at eth0 it would.
set -u
# shellcheck source=names.sh
. "$(dirname "$0")/names.sh"
failed=0
say() { printf '\n== %s\n' "$*"; }
must() { "$@" || { echo "FAILED: $*"; failed=1; }; }
# within SECONDS COMMAND...: tries it again until it works
within() {
  local end=$((SECONDS + $1)); shift
  until "$@" > /dev/null 2>&1; do [ $SECONDS -lt "$end" ] || return 1; sleep 0.1; done
}
has_two() { [ "$(at "$1" ip "$2" route show "$3" | grep -c 'nexthop via')" = 2 ]; }
two_paths() { # of both families, at both leaves
  has_two leaf1 -4 10.2.3.0/24 && has_two leaf1 -6 2001:db8:2:3::/64 &&
    has_two leaf2 -4 10.1.1.0/24 && has_two leaf2 -6 2001:db8:1:1::/64
}
say "two paths to each of the other leaf's networks, IPv4 and IPv6"
must within 60 two_paths
sleep 1 # the last station is known

say ping
for from in h1 h2; do
  for to in 10.2.3.2 10.2.4.2 2001:db8:2:3::2 2001:db8:2:4::2; do must at $from ping -q -c3 -i0.05 -W2 $to; done
done
say "traceroute: leaf1, a spine, leaf2, the host"
for to in 10.2.3.2 2001:db8:2:3::2; do
  # Three questions to each hop, of which one has to be answered.
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
sent() { # by leaf1 to a spine, in class 3
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
pings_begin() { # of both families, between all hosts
  local from to
  rm -rf "$state/pings"
  mkdir -p "$state/pings"
  for from in h1 h2; do
    for to in 10.2.3.2 10.2.4.2 2001:db8:2:3::2 2001:db8:2:4::2; do
      # A deadline is there for nobody but a check that is killed.
      ip netns exec "$prefix$from" ping -n -D -i 0.02 -w 600 -Q 96 $to > "$state/pings/$from-$to" &
      pingers+=($!)
    done
  done
}
pings_end() { # pings_end SECONDS LONGEST_GAP: each had answers over that time, and was without for no longer
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
say "leaf1 loses its link to spine1 for three seconds, under pings of both families between all hosts"
pings_begin
sleep 1
ports leaf1 ip link set spine1 down
sleep 3
must [ "$(at leaf1 ip route show 10.2.3.0/24 | grep -c 'via')" = 1 ]
ports leaf1 ip link set spine1 up
must within 30 two_paths
sleep 1
pings_end 4 2.5 # nobody was without an answer for as long as the link was away
say "spine1's bgpd dies and is started again, then its zebra, under the same pings and TCP in class 3"
one_path() { [ "$(at leaf1 ip route show 10.2.3.0/24 | grep -c 'via')" = 1 ]; }
at_spine() { at spine1 ip route show 10.2.3.0/24 | grep -q via && at spine1 ip -6 route show 2001:db8:2:3::/64 | grep -q via; }
is_told() { sh_of spine1 -c "show zebra client summary" | grep -q ^bgp; }
ended() { ! kill -0 "$1" 2> /dev/null; }
at h3 iperf3 -s -1 -D -I "$state/h3/iperf3.pid" > /dev/null
within 5 at h3 sh -c "ss -ltn | grep -q :5201"
pings_begin
# Until it is told to end, itself and no shell before it. (600 s is more than all the waits below.)
ip netns exec "${prefix}h1" iperf3 -c 10.2.3.2 -t 600 -P 16 --fq-rate 4M -S 96 > "$state/iperf3.log" &
load=$!
sleep 2
# It has no time to say goodbye. Its connections go with it, by which the leaves see it.
pid=$(cat "$state/spine1/bgpd.pid")
kill -KILL "$pid"
must within 30 one_path
must within 30 ended "$pid"
daemon spine1 bgpd
configure spine1
must within 60 two_paths
must within 60 at_spine
sleep 2
# The routes of a zebra that ends stay in the kernel.
must kill -0 $load
pid=$(cat "$state/spine1/zebra.pid")
kill "$pid"
must within 30 ended "$pid"
must at_spine
daemon spine1 zebra
configure spine1
must within 60 is_told
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
# What was on the link that was cut is the only loss there may be. Beside that the spine whose routes went with its daemon has given its
# kernel what the leaves still sent to it, and no more of that than it may (unroutable).
may_be = {"link_down"} | ({"unroutable"} if sys.argv[1] == "spine1" else set())
sys.exit(any(reason not in may_be for reason in drops))
P
done
[ $failed = 0 ]
