// SPDX-License-Identifier: (MIT OR Apache-2.0)
//
// Hands every frame of a port to the AF_XDP socket of the hardware queue that it came in by. A switch
// owns its ports: what no socket takes is counted and dropped, never shown to the kernel's own stack,
// which would answer for an address that is not the switch's.
//
// The section ".frags" makes frames of several buffers acceptable; a port whose frames all fit one
// buffer does not notice.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); // as many as the port has queues; set before loading
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unclaimed SEC(".maps");

SEC("xdp.frags")
int xoff_receive(struct xdp_md *frame)
{
	__u32 zero = 0;
	__u64 *count;
	int verdict = bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_DROP);

	if (verdict == XDP_REDIRECT)
		return verdict;
	count = bpf_map_lookup_elem(&unclaimed, &zero);
	if (count)
		*count += 1;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
