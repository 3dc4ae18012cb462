#!/usr/bin/env bash
# What papers claim, simulated again: makes the tables of docs/reproduction.md, in its order, as Markdown on standard output.
#
#     scripts/reproduce.sh [--seeds A..B] [--jobs N] [--out DIR] [PART..]
#
# PART is fig2, incast, cascade, fat-tree or qcn; all of them unless some are named. Results are kept below DIR (target/reproduction),
# which has to be empty of the parts that are run. Needs no root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh

seeds=1..10 jobs=1 out=target/reproduction parts=()
while (($#)); do
    case $1 in
        --seeds) seeds=$2 && shift 2 ;;
        --jobs) jobs=$2 && shift 2 ;;
        --out) out=$2 && shift 2 ;;
        fig2 | incast | cascade | fat-tree | qcn) parts+=("$1") && shift ;;
        *) echo "reproduce.sh: what is $1? See the beginning of the file." >&2 && exit 2 ;;
    esac
done
((${#parts[@]})) || parts=(fig2 incast cascade fat-tree qcn)
if [[ -z ${XOFF:-} ]]; then
    cargo build --release --locked --quiet --bin xoff >&2
    XOFF=${CARGO_TARGET_DIR:-target}/release/xoff
fi
mkdir -p "$out"

# sim NAME SCENARIO [--set KEY=VALUE..]: runs it into $out/NAME.
sim() {
    local name=$1 scenario=$2
    shift 2
    "$XOFF" sim "sim/scenarios/$scenario.toml" --seeds "$seeds" --jobs "$jobs" --out "$out/$name" "$@" >"$out/$name.txt"
}

# table NAME TITLE TABLE.COLUMN [..]: what a column of it comes to.
table() {
    local name=$1 title=$2
    shift 2
    printf '\n%s\n\n' "**$title** (\`$name\`)"
    "$XOFF" sim mean "$out/$name" "$@"
}

# Where frames are lost the tables say less: this one comes first.
lost() { table "$1" "Frames lost" runs.lost_frames --take sum; }

fig2() {
    sim fig2 ofc-fig2
    sim fig2-30us ofc-fig2 --set load.2.gap=30us
    sim fig2-120us ofc-fig2 --set load.2.gap=120us
    sim fig2-once ofc-fig2 --set load.2.gap=15us --set load.2.end=30us
    sim fig2-alpha-0.8 ofc-fig2 --set switch.all.policy.ofc.alpha=0.8
    sim fig2-egress-75 ofc-fig2 --set switch.all.class.3.egress_xoff=75KB --set switch.all.class.3.egress_xon=45KB
    lost fig2
    for name in fig2 fig2-30us fig2-120us fig2-once fig2-alpha-0.8 fig2-egress-75; do
        table "$name" "Completion of F0, F1 and the longest burst" flows.fct_ns --by load --take most
    done
    table fig2 "Buffer of all ports" classes.egress_mean_bytes --where class=3 --take sum
    table fig2 "Buffer of the switch of F0 and F1" classes.egress_mean_bytes --where class=3 --where switch=0 --take sum
    table fig2 "Pauses" runs.xoffs
}

incast() {
    local bursts="[34,32],[35,32],[36,32]" ratio name pairs
    for ratio in 4 6 8 10; do
        pairs="load.2.pairs=[$bursts]"
        sim "incast-$ratio" ofc-incast --set "$pairs"
        bursts+=",[$((ratio + 33)),32],[$((ratio + 34)),32]"
        lost "incast-$ratio"
        table "incast-$ratio" "Completion, $ratio:1, mean" flows.fct_ns --by load
        table "incast-$ratio" "Completion, $ratio:1, p75" flows.fct_ns --by load --take p75
        table "incast-$ratio" "Queue of the congested port, $ratio:1" classes.egress_mean_bytes --where class=3 --where peer=h32
        table "incast-$ratio" "Queue between the racks, $ratio:1" classes.egress_mean_bytes --where class=3 --where switch=0 \
            --where 'egress_max_bytes>=1'
        table "incast-$ratio" "Buffer of all ports, $ratio:1" classes.egress_mean_bytes --where class=3 --take sum
    done
    sim incast-10-egress-75 ofc-incast --set "$pairs" --set switch.all.class.3.egress_xoff=75KB --set switch.all.class.3.egress_xon=45KB
    sim incast-10-alpha-0.65 ofc-incast --set "$pairs" --set switch.all.policy.ofc.alpha=0.65
    for name in incast-10-egress-75 incast-10-alpha-0.65; do
        table "$name" "Completion of the victim, 10:1" flows.fct_ns --where load=victim
        table "$name" "Buffer of all ports, 10:1" classes.egress_mean_bytes --where class=3 --take sum
    done
}

cascade() {
    printf '\n**Cascade at 400 Gb/s**\n\n```\n'
    "$XOFF" experiment cascade --simulated --line 400G --policy pfc --runs 10
    printf '```\n'
}

fat-tree() {
    sim fat-tree-edu1 ofc-fat-tree
    sim fat-tree-edu2 ofc-fat-tree --set load.0.size=edu2
    sim fat-tree-edu1-log ofc-fat-tree --set load.0.between=log
    sim fat-tree-edu1-60 ofc-fat-tree --set load.0.load=0.6
    for name in fat-tree-edu1 fat-tree-edu2 fat-tree-edu1-log fat-tree-edu1-60; do
        trees "$name"
    done
}

trees() {
    lost "$1"
    table "$1" "Completion of all flows" flows.fct_ns
    table "$1" "Completion of flows below 10 KB" flows.fct_ns --where 'size_bytes<10000'
    table "$1" "Completion of others" flows.fct_ns --where 'size_bytes>=10000'
    table "$1" "Queue by layer" classes.egress_mean_bytes --where class=3 --by kind
}

qcn() {
    printf '\n**QCN, Fig. 3, 10 Gb/s**\n\n```\n'
    "$XOFF" experiment qcn-shared-input --simulated --line 10G --seconds 30 --runs 10 \
        --policy pfc,qcn-egress,qcn-ingress-arrival,qcn-ingress-occupancy,qcn-ingress-largest
    printf '```\n'
}

for part in "${parts[@]}"; do
    "$part"
done
