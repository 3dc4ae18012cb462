#!/usr/bin/env bash
# Starts two leaves, two spines and four hosts on one machine; each leaf and spine has a switch (xoff) and a kernel with FRR. Needs root.
# down.sh stops them.
#
#   h1 --+        +-- spine1 --+        +-- h3
#        +-- leaf1              leaf2 --+
#   h2 --+        +-- spine2 --+        +-- h4 (MTU 1400, to test path MTU discovery)
#
# Packages: frr, iproute2, ethtool. Each router has two namespaces: ls-leaf1-ports with its devices and its switch, and ls-leaf1 with the
# kernel that makes routing decisions, where the switch creates an interface for each port. For a second fabric on the same machine, set
# PREFIX to another value than ls- for all three scripts.
set -eu
# shellcheck source=names.sh
. "$(dirname "$0")/names.sh"
"$here/down.sh" # remove what an earlier fabric left

for node in $hosts; do ip netns add "$prefix$node"; done
for router in $routers; do ip netns add "$prefix$router"; ip netns add "$prefix$router-ports"; done
for node in $routers $hosts; do at "$node" ip link set lo up; done

for router in $routers; do
  # Forward IPv4 and IPv6, and answer traceroute without a rate limit. With several paths, replies may take another path (rp_filter). Use
  # no route whose link has no carrier. Keep IPv6 addresses of an interface that goes down, as with IPv4, and use new ones at once, without
  # duplicate address detection.
  at "$router" sysctl -qw \
    net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.forwarding=1 \
    net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
    net.ipv4.conf.all.ignore_routes_with_linkdown=1 net.ipv4.conf.default.ignore_routes_with_linkdown=1 \
    net.ipv6.conf.all.ignore_routes_with_linkdown=1 net.ipv6.conf.default.ignore_routes_with_linkdown=1 \
    net.ipv6.conf.all.keep_addr_on_down=1 net.ipv6.conf.default.keep_addr_on_down=1 \
    net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0 \
    net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0
done
for host in $hosts; do
  at "$host" sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.accept_ra=0
done

# wire A B: makes a link: device B at A's switch, and device A at B's switch, or eth0 at a host.
wire() {
  local at_b="$1" in_b="$prefix$2-ports"
  case $2 in h*) at_b=eth0 in_b="$prefix$2" ;; esac
  ip link add "$2" netns "$prefix$1-ports" type veth peer name "$at_b" netns "$in_b"
  ip -n "$prefix$1-ports" link set "$2" up
  ip -n "$in_b" link set "$at_b" up
}
wire leaf1 spine1
wire leaf1 spine2
wire leaf2 spine1
wire leaf2 spine2
wire leaf1 h1
wire leaf1 h2
wire leaf2 h3
wire leaf2 h4

host() { # name, leaf, number of its network
  # Send frames with checksums and without segmentation offload, which a veth would leave to the receiver.
  at "$1" ethtool -K eth0 tx off tso off > /dev/null
  at "$1" ip address add "10.$2.$3.2/24" dev eth0
  at "$1" ip address add "2001:db8:$2:$3::2/64" dev eth0
  at "$1" ip route add default via "10.$2.$3.1"
  at "$1" ip route add default via "2001:db8:$2:$3::1"
}
host h1 1 1
host h2 1 2
host h3 2 3
host h4 2 4

# Start the switches. A switch that prints "running" has made its host interfaces.
for router in $routers; do
  mkdir -p "$state/$router"
  : > "$state/$router/xoff.log" # without lines of an earlier run
  # Use this fabric's namespaces and sockets.
  sed -e "s|\"ls-|\"$prefix|" -e "s|unix:/run/xoff/$router.sock|unix:$state/$router/xoff.sock|" "$here/$router.toml" > "$state/$router/xoff.toml"
  ip netns exec "$prefix$router-ports" "$xoff" run "$state/$router/xoff.toml" > "$state/$router/xoff.log" 2>&1 &
  echo $! > "$state/$router/xoff.pid"
done
for router in $routers; do
  for _ in $(seq 300); do
    grep -q running "$state/$router/xoff.log" && break
    kill -0 "$(cat "$state/$router/xoff.pid")" 2> /dev/null || { cat "$state/$router/xoff.log"; exit 1; }
    sleep 0.1
  done
done
at leaf2 ip link set h4 mtu 1400
at h4 ip link set eth0 mtu 1400

# Start and configure FRR's daemons.
for router in $routers; do
  daemon "$router" zebra
  daemon "$router" bfdd
  daemon "$router" bgpd
  configure "$router"
done
echo "up: namespaces $prefix*; sockets and logs in $state; to stop the fabric: $here/down.sh"
echo "status of a switch: xoff status --url unix:$state/leaf1/xoff.sock"
