/*
 * What of a TCP segment becomes another one's, wherever in the kernel it is: the table, the header without its checksum, and
 * what is remembered of it.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/tcp.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow.bpf.h"

#define MOST 65536 /* translations; a connection has two */

#define IP ETH_HLEN
#define MORE_FRAGMENTS 0x2000
#define FRAGMENT_OFFSET 0x1fff

/* Offsets in a TCP header, its length without options and with most of them. */
#define SEQUENCE offsetof(struct tcphdr, seq)
#define ACKNOWLEDGEMENT offsetof(struct tcphdr, ack_seq)
#define WINDOW offsetof(struct tcphdr, window)
#define CHECKSUM offsetof(struct tcphdr, check)
#define OPTIONS sizeof(struct tcphdr)
#define LONGEST 60

/* Kinds of options (RFC 9293 section 3.1, RFC 2018 section 3, RFC 7323 section 3.2) and lengths of them. */
#define END 0
#define NO_OPERATION 1
#define MSS 2
#define SACK 5
#define TIMESTAMPS 8
#define MSS_LENGTH 4
#define TIMESTAMPS_LENGTH 10
#define MOST_EDGES 8

/* The verifier is to know a number by the next check of it, whatever the compiler knows. */
#define FORGET(number) asm volatile("" : "+r"(number))

/* kernel/table.rs has the same layout. */
struct translation {
	struct flow to;
	__u32 sequence;
	__u32 acknowledgement;
	__u32 tsval;
	__u32 tsecr;
	__u32 device;  /* by which it goes out */
	__u32 came_by; /* the device by which it comes in; 0: any */
	/*
	 * What the sender has said and is believed, if `known` (belief.bpf.h): in its own numbers where its data and its FIN
	 * end; in the numbers of who gets it the next byte that it expects, and where the bytes end that it has room for.
	 */
	__u32 sent;
	__u32 end;
	__u32 acknowledged;
	__u32 room_end;
	__u8 scale_in;
	__u8 scale_out;
	__u8 known;
	__u8 ends; /* whether there was a FIN */
	/* What was seen. */
	__u8 fin;
	__u8 syn;
	__u8 reset;
	__u8 padding;
	__u32 refused;
	__u32 turn; /* tc's last one among frames that drivers rewrite, in 2^20 ns */
	__u32 nothing;
	__u64 last; /* nanoseconds since the machine started */
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST);
	__type(key, struct flow);
	__type(value, struct translation);
} translations SEC(".maps");

/* A TCP header with all options that there is room for. */
union header {
	struct tcphdr tcp;
	__u8 bytes[LONGEST];
	__be32 words[LONGEST / 4];
};

static __always_inline void add(__u8 *at, __u32 number)
{
	__u32 sum = ((__u32)at[0] << 24 | (__u32)at[1] << 16 | (__u32)at[2] << 8 | at[3]) + number;

	at[0] = sum >> 24;
	at[1] = sum >> 16;
	at[2] = sum >> 8;
	at[3] = sum;
}

/* Rewrites timestamps; 0, or -1 if their length is another one. */
static __always_inline int timestamps(union header *header, __u32 at, __u32 length, const struct translation *to)
{
	FORGET(at);
	if (length != TIMESTAMPS_LENGTH || at > LONGEST - TIMESTAMPS_LENGTH)
		return -1;
	add(header->bytes + at + 2, to->tsval);
	/* Without ACK it echoes nothing (RFC 7323 section 3.2). */
	if (header->tcp.ack)
		add(header->bytes + at + 6, to->tsecr);
	return 0;
}

/* Rewrites selective acknowledgements; 0, or -1 if they are no whole ones. */
static __always_inline int sack(union header *header, __u32 at, __u32 length, const struct translation *to)
{
	if (length == 2 || length % 8 != 2)
		return -1;
	for (__u32 edge = 0; edge < MOST_EDGES && 4 * edge + 2 < length; edge++) {
		__u32 place = at + 2 + 4 * edge;

		FORGET(place);
		if (place > LONGEST - 4)
			return -1;
		add(header->bytes + place, to->acknowledgement);
	}
	return 0;
}

/*
 * Rewrites the option at a place in a header of this length. Its own length; 0 at the list's end, -1 if it cannot be. It
 * is not static, so the verifier looks at it once, and not once for each way to it: that took seconds.
 */
int option(union header *header, __u32 at, __u32 length, const struct translation *to)
{
	__u32 next = at + 1, one;
	int failed;

	if (!header || !to || length > LONGEST)
		return -1;
	/* A verifier before Linux 6.8 learns of a place by a constant only, which the compiler would leave out. */
	FORGET(length);
	FORGET(at);
	FORGET(next);
	if (at >= length || at >= LONGEST || header->bytes[at] == END)
		return 0;
	if (header->bytes[at] == NO_OPERATION)
		return 1;
	if (next >= length || next >= LONGEST)
		return -1;
	one = header->bytes[next];
	if (one < 2 || at + one > length)
		return -1;
	switch (header->bytes[at]) {
	case TIMESTAMPS:
		failed = timestamps(header, at, one, to);
		break;
	case SACK:
		failed = sack(header, at, one, to);
		break;
	case MSS:
		failed = !header->tcp.syn || one != MSS_LENGTH;
		break;
	default:
		failed = 1;
	}
	return failed ? -1 : (int)one;
}

/* Rewrites all options; 0, or -1 if one of them cannot be. */
static __always_inline int options(union header *header, __u32 length, const struct translation *to)
{
	__u32 at = OPTIONS;

	for (__u32 count = 0; count < LONGEST - OPTIONS; count++) {
		int one = option(header, at, length, to);

		if (one <= 0)
			return one;
		at += one;
	}
	return 0;
}

/* The window field that offers no more than this one does, and at most 65535 units of the other scale. */
static __always_inline __be16 window(__be16 field, const struct translation *to)
{
	__u32 units = ((__u32)bpf_ntohs(field) << (to->scale_in & 15)) >> (to->scale_out & 15);

	return bpf_htons(units > 0xffff ? 0xffff : units);
}

/* Rewrites all of the TCP header but its options and its checksum. */
static __always_inline void fixed_part(struct tcphdr *new, const struct tcphdr *old, const struct translation *to)
{
	new->source = to->to.source_port;
	new->dest = to->to.destination_port;
	new->seq = bpf_htonl(bpf_ntohl(old->seq) + to->sequence);
	if (old->ack)
		new->ack_seq = bpf_htonl(bpf_ntohl(old->ack_seq) + to->acknowledgement);
	/* A SYN's window has no scale (RFC 7323 section 2.2). */
	if (!old->syn)
		new->window = window(old->window, to);
}
