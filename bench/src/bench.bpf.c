// SPDX-License-Identifier: (MIT OR Apache-2.0)
//
// What stands in front of a socket of the crate xsk-rs, and what ends a frame at the benchmark's far end.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); // queue 0 is all that is used
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp.frags")
int bench_receive(struct xdp_md *frame)
{
	return bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_DROP);
}

SEC("xdp.frags")
int bench_sink(struct xdp_md *frame)
{
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
