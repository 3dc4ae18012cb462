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
#include <linux/if_ether.h>
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

// Frames that came, by what their class is found by: DSCP (64: none), then PCP (8: no tag), as in `classify.rs`. A socket does
// not say which frames it drops; what it drops came here first, so a class that has not come has not been dropped.
#define PCPS 9
#define HEADS (65 * PCPS)
enum { CONTROL = HEADS, UNREADABLE, KINDS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // read whole by one system call, which is not to be had of one for each CPU
	__uint(max_entries, KINDS);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

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

// What the dataplane finds a frame's class by: `wire/header.rs` reads the same, and a test compares them.
static __always_inline __u32 kind_of(struct xdp_md *frame)
{
	const __u16 cn_tag = 0x22e9, mac_control = 0x8808;
	__u8 *at = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	__u32 dscp = 64, pcp = 8;
	__u16 type;

	if (at + ETH_HLEN > end)
		return UNREADABLE;
	type = at[12] << 8 | at[13];
	at += ETH_HLEN;
	if (type == ETH_P_8021Q) {
		if (at + 4 > end)
			return UNREADABLE;
		pcp = at[0] >> 5;
		type = at[2] << 8 | at[3];
		at += 4;
	}
	if (type == mac_control)
		return CONTROL;
	if (type == cn_tag) {
		if (at + 4 > end)
			return UNREADABLE;
		type = at[2] << 8 | at[3];
		at += 4;
	}
	if (type == ETH_P_IP && at + 20 <= end && at[0] >= 0x45 && at[0] <= 0x4f)
		dscp = at[1] >> 2;
	else if (type == ETH_P_IPV6 && at + 40 <= end && at[0] >> 4 == 6)
		dscp = (at[0] & 0x0f) << 2 | at[1] >> 6;
	return dscp * PCPS + pcp;
}

static __always_inline void count_arrival(struct xdp_md *frame)
{
	__u32 kind = kind_of(frame);
	__u64 *frames = bpf_map_lookup_elem(&arrived, &kind);

	if (frames)
		__sync_fetch_and_add(frames, 1);
}

SEC("xdp.frags")
int xoff_receive(struct xdp_md *frame)
{
	int verdict;

	if (longest && bpf_xdp_get_buff_len(frame) > longest)
		return drop(TOO_LONG);
	count_arrival(frame);
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
