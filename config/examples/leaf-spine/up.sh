#!/usr/bin/env bash
# Two leaves, two spines and four hosts on one machine: a switch (xoff) and a kernel with FRR for each leaf and spine. As root.
# down.sh ends it.
#
#   h1 --+        +-- spine1 --+        +-- h3
#        +-- leaf1              leaf2 --+
#   h2 --+        +-- spine2 --+        +-- h4 (MTU 1400, for path MTU discovery to find)
#
# Packages: frr, iproute2, ethtool. Of each router there are two namespaces: ls-leaf1-ports with its devices and its switch, ls-leaf1
# with the kernel that decides, where the switch makes an interface for each port. A second fabric on the same machine takes another
# PREFIX than ls-, for all three scripts.
set -eu
# shellcheck source=names.sh
. "$(dirname "$0")/names.sh"
"$here/down.sh" # what an earlier one has left

for node in $hosts; do ip netns add "$prefix$node"; done
for router in $routers; do ip netns add "$prefix$router"; ip netns add "$prefix$router-ports"; done
for node in $routers $hosts; do at "$node" ip link set lo up; done

for router in $routers; do
  # It forwards, both families, and answers traceroute as often as asked. With several paths the way back may be another
  # (rp_filter). A route whose link has no carrier is not used. IPv6 addresses stay when an interface goes down, as IPv4's do,
  # and are used at once, without asking for a second whether somebody else has them.
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

# wire A B: a device named B at A's switch and one named A at B's; a host calls its own eth0.
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
  # Frames have to be whole when they leave: a veth would put off checksums and segments.
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

# The switches. Each has its host interfaces made when it says that it runs.
for router in $routers; do
  mkdir -p "$state/$router"
  : > "$state/$router/xoff.log" # nothing of an earlier one
  # Names and sockets are those of this fabric.
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

# FRR's daemons, each with its directory, and what they are told.
for router in $routers; do
  daemon "$router" zebra
  daemon "$router" bfdd
  daemon "$router" bgpd
  configure "$router"
done
echo "up: namespaces $prefix*; sockets and logs in $state; end it with $here/down.sh"
echo "what a switch says of itself: xoff status --url unix:$state/leaf1/xoff.sock"
