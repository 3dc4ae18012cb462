#!/usr/bin/env bash
# Stops the fabric of up.sh: FRR's daemons and the switches by their process ids, then the namespaces.
# shellcheck source=names.sh
. "$(dirname "$0")/names.sh"
pids() { for file in "$state"/*/*.pid; do [ -e "$file" ] && cat "$file"; done; }
for pid in $(pids); do kill "$pid" 2> /dev/null; done
for pid in $(pids); do timeout 10 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2> /dev/null; done
for node in $hosts; do ip netns delete "$prefix$node" 2> /dev/null; done
for router in $routers; do ip netns delete "$prefix$router-ports" 2> /dev/null; ip netns delete "$prefix$router" 2> /dev/null; done
rm -rf "$state"
exit 0
