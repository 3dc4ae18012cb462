// SPDX-License-Identifier: (MIT OR Apache-2.0)
//
// The XDP program redirects every frame of a port to the AF_XDP socket of its hardware queue. A switch owns its
// ports: frames without a socket are counted and dropped. The kernel's own stack must not get them, for it would
// answer for addresses that are not the switch's. Frames too long for a chunk, and thus for any port's MTU, are
// counted here as well: a socket would count them as lost for want of memory.
//
// The filter drops frames that the machine's own stack sends on a port (neighbour and router solicitations, group
// reports). The stack would obey no pause, get no answers, and while the link is down the device would count these
// frames as lost. Frames that a program writes to the device (packet sockets) pass, and all frames once the sockets
// of the switch are gone.
//
// A variant for measuring programs writes the time of receipt in front of each frame, for sockets with room there.
//
// The section ".frags" allows frames in several buffers.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); // number of hardware queues; set before loading
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

// Reasons of drops.
enum { UNCLAIMED, TOO_LONG, HELD_BACK, REASONS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

// Received frames by the fields that decide their class: DSCP (64: none), then PCP (8: no tag), as in `classify.rs`. A
// socket does not count its drops by class, but a class without frames here had no drops there.
#define PCPS 9
#define HEADS (65 * PCPS)
enum { CONTROL = HEADS, UNREADABLE, KINDS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY); // one system call can read the whole map, unlike a map per CPU
	__uint(max_entries, KINDS);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

// Maximum bytes of a frame in one chunk; zero if a frame may take several chunks. Set before loading.
const volatile __u32 longest = 0;

// Number of a hardware queue that has a socket. Set before loading.
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

// Returns the number of the fields that decide a frame's class. `wire/header.rs` reads the same; a test compares both.
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

// Writes the time (CLOCK_MONOTONIC) in front of the packet. A driver without metadata refuses: the frame has no stamp.
static __always_inline void stamp(struct xdp_md *frame)
{
	__u64 *time;

	if (bpf_xdp_adjust_meta(frame, -(int)sizeof(*time)))
		return;
	time = (void *)(long)frame->data_meta;
	if ((void *)(time + 1) <= (void *)(long)frame->data)
		*time = bpf_ktime_get_ns();
}

static __always_inline int receive(struct xdp_md *frame, int is_stamped)
{
	int verdict, step;

	if (longest && bpf_xdp_get_buff_len(frame) > longest)
		return drop(TOO_LONG);
	count_arrival(frame);
	// The kernel would write metadata of an earlier program in front of the packet: into the adjacent small chunk.
	// Its length is a multiple of 4 below 256. A step that is too large fails and changes nothing.
	if ((void *)(long)frame->data_meta < (void *)(long)frame->data)
#pragma unroll
		for (step = 128; step >= 4; step /= 2)
			bpf_xdp_adjust_meta(frame, step);
	if (is_stamped)
		stamp(frame);
	verdict = bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_DROP);
	return verdict == XDP_REDIRECT ? verdict : drop(UNCLAIMED);
}

SEC("xdp.frags")
int xoff_receive(struct xdp_md *frame)
{
	return receive(frame, 0);
}

SEC("xdp.frags")
int xoff_stamp(struct xdp_md *frame)
{
	return receive(frame, 1);
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
