# What up.sh, down.sh and check.sh have in common.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${PREFIX:-ls-}                       # of the namespaces' names: two fabrics on one machine have two
state=${STATE:-/run/xoff-${prefix}fabric}   # sockets, process ids and logs, a directory for each router
xoff=${XOFF:-xoff}                          # the program
export routers="leaf1 leaf2 spine1 spine2" hosts="h1 h2 h3 h4"
# at NODE COMMAND: in a host, or where the kernel of a router is; ports NODE COMMAND: where its switch and devices are.
at() { local node=$1; shift; ip netns exec "$prefix$node" "$@"; }
ports() { local node=$1; shift; ip netns exec "$prefix$node-ports" "$@"; }
# What the switch of a router says of itself: status_of leaf1 routes
status_of() { local node=$1; shift; "$xoff" status "$@" --url "unix:$state/$node/xoff.sock"; }
# What FRR of a router is told: sh_of leaf1 -c "show bgp summary"
sh_of() { local node=$1; shift; vtysh --vty_socket "$state/$node" "$@"; }
# daemon leaf1 bgpd: starts one of FRR's, with its directory; it knows nothing before configure leaf1 tells it. Where zebra is started again,
# its routes stay meanwhile (-r), as the neighbours go on sending: bgpd, which lives, finds the new zebra within ten seconds. What nobody
# has told that by then is taken away after sixty (-K).
daemon() {
  local node=$1 name=$2 dir=$state/$1; shift 2
  : > "$dir/$name.conf"
  case $name in
    zebra)
      echo "no zebra nexthop kernel enable" > "$dir/$name.conf" # before it finds routes; the reason is in leaf1.frr.conf
      set -- -r -K 60 ;;
    bfdd) set -- --bfdctl "$dir/bfdd.sock" ;;
  esac
  at "$node" "/usr/lib/frr/$name" -d -u root -g frrvty -f "$dir/$name.conf" --vty_socket "$dir" -z "$dir/zserv.api" \
    -i "$dir/$name.pid" --log "file:$dir/$name.log" "$@" 2> "$dir/$name.err"
}
configure() { sh_of "$1" -f "$here/$1.frr.conf" > "$state/$1/vtysh.log" 2>&1; }
