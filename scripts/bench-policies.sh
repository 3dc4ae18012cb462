#!/usr/bin/env bash
# What flow-control policies cost per frame beside plain PFC, while no queue is behind a threshold:
# instructions, counted by callgrind (the same in every run), of frames that all differ from the one
# before and of IMIX as two hosts send it; and time, all policies in turn, round by round. Then what a frame costs OFC
# whose flow joins a congested queue of ever more flows. Fails where CaPFC takes more than 3 % more
# instructions than PFC.
#
#   scripts/bench-policies.sh [ROUNDS]      rounds of the timing, 200 unless given
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-200}

if ! command -v valgrind > /dev/null; then
    echo "bench-policies.sh: valgrind is missing; scripts/install-deps.sh --bench installs it" >&2
    exit 2
fi
bench=$(cargo bench --quiet --package xoff-dataplane --bench policies --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*policies-[^"]*\)".*/\1/p')

# instructions ARGUMENTS: per frame.
instructions() {
    local said collected frames
    said=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no \
        --toggle-collect='*policies::counted*' "$bench" "$@" 2>&1)
    collected=$(sed -n 's/.*Collected : *//p' <<< "$said")
    frames=$(grep -x '[0-9]\+' <<< "$said")
    awk "BEGIN { printf \"%.1f\", $collected / $frames }"
}

ratio() {
    awk "BEGIN { printf \"%.3f\", $1 / $2 }"
}

declare -A mixed imix
failed=0
printf '%-22s %9s %6s   %9s %6s   %8s %s\n' policy mixed ratio imix ratio 'time, ns' 'ratio (half of the rounds)'
while read -r policy nanos median low high; do
    mixed[$policy]=$(instructions count mixed "$policy")
    imix[$policy]=$(instructions count imix "$policy")
    of_mixed=$(ratio "${mixed[$policy]}" "${mixed[pfc]}")
    of_imix=$(ratio "${imix[$policy]}" "${imix[pfc]}")
    printf '%-22s %9s %6s   %9s %6s   %8s %s (%s to %s)\n' "$policy" \
        "${mixed[$policy]}" "$of_mixed" "${imix[$policy]}" "$of_imix" "$nanos" "$median" "$low" "$high"
    if [[ $policy == capfc-* ]] && awk "BEGIN { exit !($of_mixed > 1.03 || $of_imix > 1.03) }"; then
        failed=1
    fi
done < <("$bench" time "$rounds")

printf '\n%-22s %9s %9s\n' 'group, spread by' mixed imix
for spread in flow frame adaptive; do
    printf '%-22s %9s %9s\n' "$spread" "$(instructions count-groups mixed "$spread")" \
        "$(instructions count-groups imix "$spread")"
done

printf '\n%-22s %9s\n' 'flows that wait (OFC)' instructions
for flows in 16 256 4096 32768; do
    printf '%-22s %9s\n' "$flows" "$(instructions count-joins "$flows")"
done

if ((failed)); then
    echo "bench-policies.sh: CaPFC costs more than 3 % over PFC" >&2
    exit 1
fi
