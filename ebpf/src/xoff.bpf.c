// SPDX-License-Identifier: (MIT OR Apache-2.0)
//
// Hands every frame of a port to the AF_XDP socket of the hardware queue that it came in by. A switch
// owns its ports: what no socket takes is counted and dropped, never shown to the kernel's own stack,
// which would answer for an address that is not the switch's. So is what is longer than a chunk holds and,
// with it, than any port's MTU: a socket would count it among what it lost for want of room.
//
// A switch owns its ports in the other direction, too: what the machine's own stack wants to send there (neighbour and
// router solicitations, group reports) is held back. It would obey no pause, nobody could answer it, and while the
// link is down the device would count it among the frames that it lost. Frames that a program writes to the device itself
// (a packet socket) pass. So does everything once the switch is gone, and its sockets with it.
//
// The section ".frags" makes frames of several buffers acceptable; a port whose frames all fit one
// buffer does not notice.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); // as many as the port has queues; set before loading
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

// Why a frame is dropped here.
enum { UNCLAIMED, TOO_LONG, HELD_BACK, REASONS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

// Most bytes of a frame that one chunk holds; zero where a frame may take several. Set before loading.
const volatile __u32 longest = 0;

// A queue that has a socket. Set before loading.
const volatile __u32 socket_queue = 0;

static __always_inline void count(__u32 reason)
{
	__u64 *counter = bpf_map_lookup_elem(&dropped, &reason);

	if (counter)
		*counter += 1;
}

static __always_inline int drop(__u32 reason)
{
	count(reason);
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

SEC("tc")
int xoff_hold_back(struct __sk_buff *frame)
{
	const __u16 packet_socket = 17; // AF_PACKET
	struct bpf_sock *sender = frame->sk;
	__u32 queue = socket_queue;

	if (!bpf_map_lookup_elem(&sockets, &queue) || (sender && sender->family == packet_socket))
		return TC_ACT_UNSPEC;
	count(HELD_BACK);
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
