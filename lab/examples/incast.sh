#!/bin/sh
# RoCE-style incast: all other hosts send 300 numbered datagrams of 16 KB to the last host, as fast as they can.
# Their class is 3 (DSCP 26, port 4791).
set -e
XOFF=${XOFF:-xoff}
at() { node=$1; shift; "$XOFF" lab exec "$node" -- "$@"; }
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
last=${XOFF_LAB_HOSTS##* }
senders=${XOFF_LAB_HOSTS% *}
cat > "$directory/receiver.py" <<'PYTHON'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
s.bind(("", 4791)); s.settimeout(20)
print("ready", flush=True)
came = {}
while sum(map(len, came.values())) < 300 * int(sys.argv[1]):
    data, (address, _) = s.recvfrom(20_000)
    came.setdefault(address, []).append(int.from_bytes(data[:4], "big"))
assert all(numbers == list(range(300)) for numbers in came.values()), "lost, twice, or out of order"
PYTHON
cat > "$directory/sender.py" <<'PYTHON'
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 26 << 2)
for number in range(300):
    s.sendto(number.to_bytes(4, "big") + bytes(16_000), (sys.argv[1], 4791))
PYTHON
: > "$directory/ready"
at "$last" python3 "$directory/receiver.py" "$(echo "$senders" | wc -w)" > "$directory/ready" & receiver=$!
for _ in $(seq 200); do grep -q ready "$directory/ready" && break; sleep 0.05; done
for host in $senders; do at "$host" python3 "$directory/sender.py" "$last" & done
wait "$receiver"
echo "incast into $last: every datagram arrived once and in order"
