#!/bin/sh
# An MPI job (Open MPI, mpi4py) with one rank on each host of the lab: an all-to-all of 20 KB, twenty times.
set -e
export XOFF="${XOFF:-xoff}"
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cat > "$directory/alltoall.py" <<'PYTHON'
from mpi4py import MPI
comm = MPI.COMM_WORLD
me, ranks, size = comm.Get_rank(), comm.Get_size(), 20_000
for turn in range(20):
    block = lambda sender, to: bytes([(sender * 7 + to * 3 + turn) % 256]) * size
    got = bytearray(size * ranks)
    comm.Alltoall(bytearray(b"".join(block(me, to) for to in range(ranks))), got)
    assert got == b"".join(block(of, me) for of in range(ranks)), "not what was sent"
if me == 0:
    print(f"mpi: {ranks} ranks received what the others sent")
PYTHON
# Used by mpirun instead of ssh.
# shellcheck disable=SC2016 # expanded by the shell of the written program
printf '#!/bin/sh\nnode=$1; shift\nexec "$XOFF" lab exec "$node" -- sh -c "$*"\n' > "$directory/agent.sh"
chmod +x "$directory/agent.sh"
hosts=$(echo "$XOFF_LAB_HOSTS" | tr ' ' ',')
"$XOFF" lab exec "${XOFF_LAB_HOSTS%% *}" -- mpirun --allow-run-as-root --host "$hosts" --mca plm_rsh_agent "$directory/agent.sh" \
    --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 /usr/bin/python3 "$directory/alltoall.py"
