#!/usr/bin/env bash
# Simulates the papers' claims: prints the tables of docs/reproduction.md, in its order, as Markdown (sizes of OFC's tables as JSON, in
# bytes).
#
#     scripts/reproduce.sh [--seeds A..B] [--jobs N] [--out DIR] [PART..]
#
# PART is fig2, deadlock, classes, incast, cascade, fat-tree, fig8, capfc, capfc-tcp, qcn or qcn-fabric; by default all. Results go
# below DIR (target/reproduction), which must not contain results of these parts except capfc-tcp. Needs no root.
#
# The part capfc-tcp-settings has other settings of TCP and paths in CaPFC's scenario 1; capfc-tcp-grid has all combinations of settings
# in all scenarios, for a night on two cores (--jobs 2). These three parts keep finished
# results in DIR, whatever seeds and program made them, and run the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/find-cargo.sh

seeds=1..10 jobs=1 out=target/reproduction parts=()
while (($#)); do
    case $1 in
        --seeds) seeds=$2 && shift 2 ;;
        --jobs) jobs=$2 && shift 2 ;;
        --out) out=$2 && shift 2 ;;
        fig2 | deadlock | classes | incast | cascade | fat-tree | fig8 | capfc | capfc-tcp | capfc-tcp-settings | capfc-tcp-grid | \
            qcn | qcn-fabric)
            parts+=("$1") && shift
            ;;
        *) echo "reproduce.sh: what is $1? See the beginning of the file." >&2 && exit 2 ;;
    esac
done
((${#parts[@]})) || parts=(fig2 deadlock classes incast cascade fat-tree fig8 capfc capfc-tcp qcn qcn-fabric)
if [[ -z ${XOFF:-} ]]; then
    cargo build --release --locked --quiet --bin xoff >&2
    XOFF=${CARGO_TARGET_DIR:-target}/release/xoff
fi
mkdir -p "$out"

# sim NAME SCENARIO [--set KEY=VALUE..]: runs a scenario, with results in $out/NAME.
sim() {
    local name=$1 scenario=$2
    shift 2
    "$XOFF" sim "sim/scenarios/$scenario.toml" --seeds "$seeds" --jobs "$jobs" --out "$out/$name" "$@" >"$out/$name.txt"
}

# table NAME TITLE TABLE.COLUMN [..]: prints the statistics of a column.
table() {
    local name=$1 title=$2
    shift 2
    printf '\n%s\n\n' "**$title** (\`$name\`)"
    "$XOFF" sim mean "$out/$name" "$@"
}

# box NAME TITLE TABLE.COLUMN [..]: prints minimum, quartiles and maximum of a column.
box() {
    local name=$1 title=$2 take
    shift 2
    for take in least p25 p75 most; do
        table "$name" "$title, $take" "$@" --take $take
    done
}

# Losses weaken the other tables, so this one comes first.
lost() { table "$1" "Frames lost" runs.lost_frames --take sum; }

fig2() {
    sim fig2 ofc-fig2
    sim fig2-30us ofc-fig2 --set load.2.gap=30us
    sim fig2-120us ofc-fig2 --set load.2.gap=120us
    sim fig2-once ofc-fig2 --set load.2.gap=15us --set load.2.end=30us
    sim fig2-alpha-0.8 ofc-fig2 --set switch.all.policy.ofc.alpha=0.8
    sim fig2-egress-75 ofc-fig2 --set switch.all.class.3.egress_xoff=75KB --set switch.all.class.3.egress_xon=45KB
    # P-PFC pauses above the mean of all egress queues, as in the paper: its minimum is little more than a frame.
    sim fig2-egress-2 ofc-fig2 --set policy=p-pfc --set switch.all.class.3.egress_xoff=2KB --set switch.all.class.3.egress_xon=1KB
    # F0 in class 3, all others in class 4, with shared memory.
    sim fig2-classes ofc-fig2 --set load.1.class=4 --set load.2.class=4 --set 'switch.all.defaults.lossless=[3,4]' \
        --set switch.all.class.4.xoff=75KB --set switch.all.class.4.xon=45KB --set switch.all.memory.model=shared
    lost fig2
    lost fig2-classes
    for name in fig2 fig2-30us fig2-120us fig2-once fig2-alpha-0.8 fig2-egress-75 fig2-egress-2 fig2-classes; do
        table "$name" "Completion of F0, F1 and the longest burst" flows.fct_ns --by load --take most
    done
    table fig2 "Buffer of all ports" classes.egress_mean_bytes --where class=3 --take sum
    table fig2 "Buffer of the switch of F0 and F1" classes.egress_mean_bytes --where class=3 --where switch=0 --take sum
    table fig2 "Pauses" runs.xoffs
    for name in flow_in_port congested_flow pause_frame; do
        table fig2 "Table $name, all ports" "classes.${name}_mean_bytes" --where class=3 --json
        table fig2 "Table $name by port" "classes.${name}_mean_bytes" --where class=3 --by switch,port --json
        table fig2 "Table $name, maximum" "classes.${name}_max_bytes" --where class=3 --take most --json
    done
}

# Each seed is one random draw: a thousand seeds, and 200 for each variation.
deadlock() {
    local seeds=1..1000 flows
    for flows in 240 400 640; do
        draws "deadlock-$flows" --set load.0.flows=$flows
    done
    lost deadlock-640
    seeds=1..200
    draws deadlock-at-once --set load.0.jitter=1us
    draws deadlock-1ms --set load.0.jitter=1ms
    draws deadlock-6kb --set load.0.size=1KB..6KB
    draws deadlock-600kb --set load.0.size=1KB..600KB
    draws deadlock-egress-75 --set switch.all.class.3.egress_xoff=75KB --set switch.all.class.3.egress_xon=45KB
    draws deadlock-egress-2 --set policy=p-pfc --set switch.all.class.3.egress_xoff=2KB --set switch.all.class.3.egress_xon=1KB
}

# Flows of two lossless classes.
classes() {
    local seeds=1..200 flows
    for flows in 120 200 320; do
        draws "classes-$flows" ofc-classes --set load.0.flows=$flows --set load.1.flows=$flows
    done
    draws classes-shared ofc-classes --set switch.all.memory.model=shared --set switch.all.memory.pool=150KB \
        --set switch.all.memory.alpha_log2=none
    lost classes-shared
}

# draws NAME [SCENARIO] [--set KEY=VALUE..]
draws() {
    local name=$1 scenario=ofc-deadlock
    shift
    [[ ${1:-} == --* ]] || { scenario=$1 && shift; }
    sim "$name" "$scenario" "$@"
    # Per-flow results of a thousand draws would need gigabytes and are not used.
    rm -f "$out/$name"/flows.*
    if ! table "$name" "Bytes stuck in deadlocked draws" runs.stuck_kb --where 'stuck_kb>=0.001' \
        2>"$out/$name.err"; then
        grep --quiet 'there is no number for' "$out/$name.err" || { cat "$out/$name.err" >&2 && exit 1; }
        printf 'none\n'
    fi
}

incast() {
    local bursts="[34,32],[35,32],[36,32]" ratio name pairs
    for ratio in 4 6 8 10; do
        pairs="load.2.pairs=[$bursts]"
        sim "incast-$ratio" ofc-incast --set "$pairs"
        bursts+=",[$((ratio + 33)),32],[$((ratio + 34)),32]"
        lost "incast-$ratio"
        table "incast-$ratio" "Completion of all flows, $ratio:1" flows.fct_ns
        table "incast-$ratio" "Completion, $ratio:1, mean" flows.fct_ns --by load
        box "incast-$ratio" "Completion of all flows, $ratio:1" flows.fct_ns
        box "incast-$ratio" "Completion, $ratio:1" flows.fct_ns --by load
        box "incast-$ratio" "Queue between the racks, $ratio:1" queues.egress_bytes --where class=3 --where switch=0 --where port=32
        box "incast-$ratio" "Queue of the congested port, $ratio:1" queues.egress_bytes --where class=3 --where switch=1 --where port=0
        table "incast-$ratio" "Queue of the congested port, $ratio:1" classes.egress_mean_bytes --where class=3 --where peer=h32
        table "incast-$ratio" "Queue between the racks, $ratio:1" classes.egress_mean_bytes --where class=3 --where switch=0 \
            --where 'egress_max_bytes>=1'
        table "incast-$ratio" "Buffer of all ports, $ratio:1" classes.egress_mean_bytes --where class=3 --take sum
    done
    sim incast-10-egress-75 ofc-incast --set "$pairs" --set switch.all.class.3.egress_xoff=75KB --set switch.all.class.3.egress_xon=45KB
    sim incast-10-alpha-0.65 ofc-incast --set "$pairs" --set switch.all.policy.ofc.alpha=0.65
    sim incast-10-egress-2 ofc-incast --set "$pairs" --set policy=p-pfc --set switch.all.class.3.egress_xoff=2KB \
        --set switch.all.class.3.egress_xon=1KB
    for name in incast-10-egress-75 incast-10-egress-2 incast-10-alpha-0.65; do
        table "$name" "Completion of the victim, 10:1" flows.fct_ns --where load=victim
        table "$name" "Buffer of all ports, 10:1" classes.egress_mean_bytes --where class=3 --take sum
    done
}

cascade() {
    printf '\n**Cascade at 400 Gb/s**\n\n```\n'
    "$XOFF" experiment cascade --simulated --speed 400G --policy pfc --runs 10
    printf '```\n'
    # GPU-3 stops for a time.
    sim cascade-stop cascade
    lost cascade-stop
    table cascade-stop "First XOFF to a peer" pauses.start_ns --by switch,peer --take least
    table cascade-stop "First XON to a peer" pauses.end_ns --by switch,peer --take least
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

fig8() {
    local reading
    for reading in linear log step; do
        thresholds "$reading" --set load.0.between=$reading
    done
    thresholds edu2 --set load.0.size=edu2
}

thresholds() {
    local which=$1 name
    shift
    for alpha in 0.8 0.85 0.9; do
        name=fig8-$which-alpha-$alpha
        sim "$name" ofc-fig8 "$@" --set switch.all.policy.ofc.alpha=$alpha
        table "$name" "All queues, alpha $alpha, $which" classes.egress_mean_bytes --where class=3
    done
    for beta in 3 6 10; do
        name=fig8-$which-beta-$beta
        sim "$name" ofc-fig8 "$@" --set switch.all.class.3.xoff=$((75 * beta))KB --set switch.all.class.3.xon=$((45 * beta))KB
        table "$name" "All queues, beta $beta, $which" classes.egress_mean_bytes --where class=3
    done
}

qcn() {
    printf '\n**QCN, Fig. 3, 10 Gb/s**\n\n```\n'
    "$XOFF" experiment qcn-shared-input --simulated --speed 10G --duration 30s --runs 10 \
        --policy pfc,qcn-egress,qcn-ingress-arrival,qcn-ingress-occupancy,qcn-ingress-largest
    printf '```\n'
    local limit delay name
    for limit in 3G 10G; do
        for delay in 0s 2400ns; do
            name=qcn-f1-$limit-$delay
            sim "$name" qcn-shared-input --set load.0.rate=$limit --set hosts.qcn.delay=$delay
            rates "$name" "50 100" "150 200" "250 300"
        done
    done
}

# Rates are of payload: 1,538 bytes on the line carry 1,456.
qcn-fabric() {
    local spans=("50 100" "120 160" "250 300")
    rack qcn-fabric 10G 3G 7G 299ms
    spans=("10 20" "24 32" "50 60")
    rack qcn-fabric-100g 100G 30G 70G 59ms --set topology.host_rate=100G --set load.4.begin=20ms --set load.4.size=50MB \
        --set hosts.qcn.additive=50M --set hosts.qcn.hyper=500M --set scenario.duration=60ms
}

# rack NAME LINE F1 F6 END [--set KEY=VALUE..]: Figs. 2 and 3 with rates of the server lines, f1 and f6.
rack() {
    local name=$1 line=$2 f1=$3 f6=$4 end=$5
    shift 5
    local fig2=(--set "load.0.rate=$line" --set "load.5.begin=$end") fig3=(--set "load.0.rate=$f1" --set "load.5.rate=$f6")
    local outputs=(--set 'switch.leaf.qcn.ingress=[]' --set 'switch.leaf.qcn.egress=[3]')
    fabric "$name-fig2-inputs" "${fig2[@]}" "$@"
    fabric "$name-fig2-outputs" "${fig2[@]}" "${outputs[@]}" "$@"
    fabric "$name-pause" "${fig3[@]}" --set hosts.control=none "$@"
    fabric "$name-arrival" "${fig3[@]}" "$@"
    fabric "$name-random" "${fig3[@]}" --set switch.leaf.qcn.culprit=occupancy-random "$@"
    fabric "$name-largest" "${fig3[@]}" --set switch.leaf.qcn.culprit=occupancy-deterministic "$@"
}

# rates NAME "BEGIN END"..: prints rates of flows in times in ms.
rates() {
    local name=$1 span
    shift
    for span in "$@"; do
        table "$name" "Rates by flow, ms $span" throughput.rate_mbps --by flow --where "time_ns>=${span% *}000001" \
            --where "time_ns<${span#* }000001"
    done
}

fabric() {
    local name=$1
    shift
    [[ $* == *hosts.control=* ]] || set -- --set hosts.control=qcn "$@"
    sim "$name" qcn-rack-fabric "$@"
    lost "$name"
    rates "$name" "${spans[@]}"
    table "$name" "Notifications by flow" flows.cnps --by load
    table "$name" "Pauses" runs.xoffs
}

capfc() {
    pipeline capfc-switch capfc-switch
    pipeline capfc-switch-none capfc-switch --set hosts.window=none
    pipeline capfc-switch-half capfc-switch --set switch.all.pipeline.rate=500kpps
    pipeline capfc-switch-acks capfc-switch --set hosts.window=none --set hosts.ack_every=16
    pipeline capfc-switch-half-acks capfc-switch --set hosts.window=none --set hosts.ack_every=16 --set switch.all.pipeline.rate=500kpps
    pipeline capfc-tree capfc-fat-tree
    pipeline capfc-tree-none capfc-fat-tree --set hosts.window=none
    pipeline capfc-tree-slow capfc-fat-tree --set topology.host_rate=1G --set topology.rate=500M --set topology.core_rate=250M \
        --set load.0.load=0.1 --set load.1.load=0.02
}

pipeline() {
    local name=$1 scenario=$2
    shift 2
    sim "$name" "$scenario" "$@"
    lost "$name"
    table "$name" "Longest completion" flows.fct_ns --by load --take most
    table "$name" "Completion, p99" flows.fct_ns --by load --take p99
    table "$name" "Bytes stuck at the end" runs.stuck_kb
}

# CaPFC's scenarios 1 to 6 (Table I) and its switch with shared memory (Fig. 9), with TCP.
capfc_scenarios=(1 2 3 4 5 6 shared)

capfc-tcp() {
    local scenario
    for scenario in "${capfc_scenarios[@]}"; do
        capfc_policies "$scenario" "capfc-tcp-$scenario"
    done
}

capfc-tcp-settings() {
    capfc_policies 1 capfc-tcp-1-never --set hosts.tcp.detection=never
    capfc_policies 1 capfc-tcp-1-rto-50ms --set hosts.tcp.rto_min=50ms --set hosts.tcp.rto_initial=50ms
    capfc_policies 1 capfc-tcp-1-rto-200ms --set hosts.tcp.rto_min=200ms --set hosts.tcp.rto_initial=200ms
    capfc_policies 1 capfc-tcp-1-hash --set topology.spread=flow
    # Oversubscribed 2:1 twice by slower lines, which need less load.
    capfc_policies 1 capfc-tcp-1-lines --set topology.host_rate=1G --set topology.rate=500M --set topology.core_rate=250M \
        --set load.0.arrivals=2500
}

# Shorter time-outs and fast retransmission come first, so that `capfc_needless` can compare with them.
capfc-tcp-grid() {
    local detection rto spread scenario policies=(pfc capfc-stop-max capfc-stop-calibrate)
    for detection in 3 never; do
        for rto in 10ms 50ms 200ms; do
            for spread in adaptive flow; do
                for scenario in "${capfc_scenarios[@]}"; do
                    capfc_policies "$scenario" "capfc-tcp-grid-$scenario-$detection-$rto-$spread" \
                        --set hosts.tcp.detection=$detection --set hosts.tcp.rto_min=$rto --set hosts.tcp.rto_initial=$rto \
                        --set topology.spread=$spread
                done
            done
        done
    done
}

# each KEY=VALUE..: adds the keys of all three classes to `keys`.
each() {
    local class key
    for class in 3 4 5; do
        for key in "$@"; do
            keys+=(--set "switch.all.class.$class.$key")
        done
    done
}

# capfc_policies SCENARIO NAME [--set KEY=VALUE..]: runs a scenario with the file's policies, PFC_wstop, and plain PFC with as much memory.
capfc_policies() {
    local scenario=$1 name=$2 keys=()
    shift 2
    case $scenario in
        2) set -- "$@" --set load.1.size=16KB ;;
        3) set -- "$@" --set load.2.size=32KB ;;
        4) set -- "$@" --set switch.all.class.5.weight=10 --set switch.all.class.4.weight=strict ;;
        5) set -- "$@" --set switch.all.class.5.weight=10 ;;
        6) set -- "$@" --set switch.all.pipeline.rate=500kpps ;;
    esac
    local plain=(--set policy=pfc --set switch.all.accounting=until-transmitted)
    if [[ $scenario == shared ]]; then
        set -- "$@" --set switch.all.memory.model=shared --set switch.all.memory.pool=350KB --set switch.all.memory.port_limit=100KB \
            --set switch.all.memory.egress_port_limit=100KB --set switch.all.memory.headroom=pool --set switch.all.memory.alpha_log2=none
        each ingress_reserve=8KB xoff=62KB xon=52KB egress_max=1MB
        capfc_cell "$name-plain" "${plain[@]}" "${keys[@]}" "$@"
        keys=()
        # Thresholds without the reserve: XOFF at 30 KB, XON at 20 KB, at most 88 KB in a queue.
        each ingress_reserve=8KB egress_reserve=8KB xoff=22KB xon=12KB headroom=58KB egress_max=88KB \
            egress_xoff=50KB egress_xon=35KB egress_warn=35KB
        set -- "${keys[@]}" --set switch.all.memory.egress_limits=all "$@"
    else
        each xoff=110KB xon=100KB egress_max=1MB
        capfc_cell "$name-plain" "${plain[@]}" "${keys[@]}" "$@"
    fi
    if [[ ${policies:-} ]]; then
        local policy
        for policy in "${policies[@]}"; do
            capfc_cell "$name-$policy" --set policy="$policy" "$@"
        done
    else
        capfc_cell "$name" "$@"
    fi
    capfc_cell "$name-wstop" --set policy=pfc --set switch.all.when_full=stop "$@"
}

# capfc_needless NAME: prints the result that NAME must equal, if any: without time-outs no time-out matters, and without retransmissions
# no rule for them.
capfc_needless() {
    local other=$1 column=timeouts
    case $1 in
        capfc-tcp-grid-*-50ms-* | capfc-tcp-grid-*-200ms-*) other=${other/-50ms-/-10ms-} other=${other/-200ms-/-10ms-} ;;
        capfc-tcp-grid-*-never-*) other=${other/-never-/-3-} column=resent_frames ;;
        *) return 1 ;;
    esac
    [[ ! -e $out/$other/runs.csv ]] || awk -F, -v column=$column '
        NR == 1 { for (at = 1; at <= NF; at++) if ($at == column) break; next }
        $at > 0 { exit 1 }' "$out/$other/runs.csv" || return 1
    echo "$other"
}

capfc_cell() {
    local name=$1 other
    shift
    if other=$(capfc_needless "$name"); then
        printf '\n%s\n' "\`$name\` is as \`$other\`."
        return
    fi
    if [[ ! -e $out/$name/summary.txt ]]; then
        rm -rf "${out:?}/$name"
        sim "$name" capfc-tcp "$@"
    else
        echo "reproduce.sh: kept $out/$name" >&2
    fi
    lost "$name"
    table "$name" "Longest completion" flows.fct_ns --by load --take most
    table "$name" "Completion, p99" flows.fct_ns --by load --take p99
    table "$name" "Flows that ended" loads.flows_done --by load --take sum
    table "$name" "Flows" loads.flows --by load --take sum
    table "$name" "Time-outs" runs.timeouts
    table "$name" "Retransmissions" runs.resent_frames
    table "$name" "Pauses" runs.xoffs
}

for part in "${parts[@]}"; do
    "$part"
done
