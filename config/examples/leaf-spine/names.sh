# Variables and functions of up.sh, down.sh and check.sh.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${PREFIX:-ls-}                       # start of all namespace names; a second fabric on the machine needs another
state=${STATE:-/run/xoff-${prefix}fabric}   # a directory per router: sockets, process ids, logs
xoff=${XOFF:-xoff}                          # path of the program xoff
export routers="leaf1 leaf2 spine1 spine2" hosts="h1 h2 h3 h4"
# at NODE COMMAND: runs a command in the namespace of a host, or of a router's kernel.
# ports NODE COMMAND: runs it in the namespace of a router's switch and devices.
at() { local node=$1; shift; ip netns exec "$prefix$node" "$@"; }
ports() { local node=$1; shift; ip netns exec "$prefix$node-ports" "$@"; }
# status_of leaf1 routes: prints the status of a router's switch.
status_of() { local node=$1; shift; "$xoff" status "$@" --url "unix:$state/$node/xoff.sock"; }
# sh_of leaf1 -c "show bgp summary": runs a command in the FRR of a router.
sh_of() { local node=$1; shift; vtysh --vty_socket "$state/$node" "$@"; }
# daemon leaf1 bgpd: starts a daemon of FRR, without configuration; `configure leaf1` loads that. A restarted zebra keeps its routes (-r),
# because neighbours continue to send. bgpd connects to the new zebra within ten seconds. Routes that no daemon has announced again
# after sixty seconds are removed (-K).
daemon() {
  local node=$1 name=$2 dir=$state/$1; shift 2
  : > "$dir/$name.conf"
  case $name in
    zebra)
      echo "no zebra nexthop kernel enable" > "$dir/$name.conf" # must be set before it reads routes; leaf1.frr.conf says why
      set -- -r -K 60 ;;
    bfdd) set -- --bfdctl "$dir/bfdd.sock" ;;
  esac
  at "$node" "/usr/lib/frr/$name" -d -u root -g frrvty -f "$dir/$name.conf" --vty_socket "$dir" -z "$dir/zserv.api" \
    -i "$dir/$name.pid" --log "file:$dir/$name.log" "$@" 2> "$dir/$name.err"
}
configure() { sh_of "$1" -f "$here/$1.frr.conf" > "$state/$1/vtysh.log" 2>&1; }
