# What up.sh, down.sh and check.sh have in common.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${STATE:-/run/xoff-leaf-spine} # sockets, process ids and logs, a directory for each router
xoff=${XOFF:-xoff}                   # the program
routers="leaf1 leaf2 spine1 spine2"
hosts="h1 h2 h3 h4"
# at NODE COMMAND: in a host, or where the kernel of a router is; ports NODE COMMAND: where its switch and devices are.
at() { local node=$1; shift; ip netns exec "ls-$node" "$@"; }
ports() { local node=$1; shift; ip netns exec "ls-$node-ports" "$@"; }
# What FRR of a router is told: sh_of leaf1 -c "show bgp summary"
sh_of() { local node=$1; shift; vtysh --vty_socket "$state/$node" "$@"; }
