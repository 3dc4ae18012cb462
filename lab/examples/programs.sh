#!/bin/sh
# Runs unmodified programs of Debian on the lab's hosts, and compares what they receive byte for byte.
set -e
at() { node=$1; shift; "$XOFF" lab exec "$node" -- "$@"; }
wait_for() { for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done; echo "no answer: $*" >&2; exit 1; }

# HTTP: three hosts download from the fourth at the same time.
mkdir -p served
head -c 4000000 /dev/urandom > served/file
at h1 python3 -m http.server --directory served 8000 >/dev/null 2>&1 &
wait_for at h2 curl -sf http://h1:8000/
for host in h2 h3 h4; do at "$host" curl -sf -o "$host.file" http://h1:8000/file & pids="$pids $!"; done
for pid in $pids; do wait "$pid"; done
for host in h2 h3 h4; do cmp served/file "$host.file"; done
echo "http: three downloads equal the file"

# Redis: two benchmarks at once, values of 4000 bytes.
at h4 redis-server --bind 0.0.0.0 --protected-mode no --save '' --appendonly no --daemonize no >/dev/null 2>&1 &
wait_for at h1 redis-cli -h h4 ping
pids=
for host in h1 h3; do at "$host" redis-benchmark -h h4 -n 2000 -c 20 -d 4000 -t set,get -q > "$host.redis" & pids="$pids $!"; done
for pid in $pids; do wait "$pid"; done
at h1 redis-cli -h h4 -x set whole < served/file >/dev/null
at h2 redis-cli -h h4 --raw get whole | head -c 4000000 | cmp - served/file
echo "redis: the value read equals the value set"

# UDP as with soft-RoCE: three hosts send numbered datagrams to one, as fast as sockets permit, without retransmission.
cat > receiver.py <<'PYTHON'
import hashlib, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
s.bind(("", 4791)); s.settimeout(20)
print("ready", flush=True)
came = {}
while sum(map(len, came.values())) < 9000:
    data, (address, _) = s.recvfrom(2000)
    number = int.from_bytes(data[:4], "big")
    assert data[4:] == hashlib.sha256(data[:4]).digest() * 32, "a datagram has changed"
    came.setdefault(address, []).append(number)
assert all(numbers == list(range(3000)) for numbers in came.values()), "lost, twice, or out of order"
PYTHON
cat > sender.py <<'PYTHON'
import hashlib, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(3000):
    head = number.to_bytes(4, "big")
    s.sendto(head + hashlib.sha256(head).digest() * 32, ("h1", 4791))
PYTHON
at h1 python3 receiver.py > received & receiver=$!
wait_for grep ready received
for host in h2 h3 h4; do at "$host" python3 sender.py & done
wait "$receiver"
echo "udp: 9000 datagrams arrived once and in order"

# MPI: each of four ranks sends 100 KB to each other rank, twenty times.
cat > alltoall.py <<'PYTHON'
import hashlib
from mpi4py import MPI
comm = MPI.COMM_WORLD
me, all_of, size = comm.Get_rank(), comm.Get_size(), 100_000
def block(sender, receiver, turn):
    return (hashlib.sha256(f"{sender} {receiver} {turn}".encode()).digest() * (size // 32 + 1))[:size]
for turn in range(20):
    sent = bytearray(b"".join(block(me, to, turn) for to in range(all_of)))
    got = bytearray(size * all_of)
    comm.Alltoall(sent, got)
    assert got == b"".join(block(of, me, turn) for of in range(all_of)), "not what was sent"
if me == 0:
    print("mpi: four ranks received what the others sent")
PYTHON
cat > agent.sh <<'SHELL'
#!/bin/sh
# Used by mpirun instead of ssh.
node=$1; shift
exec "$XOFF" lab exec "$node" -- sh -c "$*"
SHELL
chmod +x agent.sh
at h1 mpirun --allow-run-as-root --host h1,h2,h3,h4 --mca plm_rsh_agent "$PWD/agent.sh" --mca btl tcp,self \
    --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 /usr/bin/python3 "$PWD/alltoall.py"
