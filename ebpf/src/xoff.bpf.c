// SPDX-License-Identifier: (MIT OR Apache-2.0)
//
// Hands every frame of a port to the AF_XDP socket of the hardware queue that it came in by. A switch
// owns its ports: what no socket takes is counted and dropped, never shown to the kernel's own stack,
// which would answer for an address that is not the switch's. So is what is longer than a chunk holds and,
// with it, than any port's MTU: a socket would count it among what it lost for want of room.
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

// Why a frame is dropped here.
enum { UNCLAIMED, TOO_LONG, REASONS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

// Most bytes of a frame that one chunk holds; zero where a frame may take several. Set before loading.
const volatile __u32 longest = 0;

static __always_inline int drop(__u32 reason)
{
	__u64 *count = bpf_map_lookup_elem(&dropped, &reason);

	if (count)
		*count += 1;
	return XDP_DROP;
}

SEC("xdp.frags")
int xoff_receive(struct xdp_md *frame)
{
	int verdict;

	if (longest && bpf_xdp_get_buff_len(frame) > longest)
		return drop(TOO_LONG);
	verdict = bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_DROP);
	return verdict == XDP_REDIRECT ? verdict : drop(UNCLAIMED);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
