/*
 * What is believed of segments. Who knows a connection's addresses and ports can forge them, from wherever that is. So they
 * are judged as their receiver judges them, by what the other direction has acknowledged and has room for (RFC 9293 section
 * 3.10.7.4, RFC 5961): what is not believed is rewritten all the same, and changes nothing here.
 */

/* A window may be probed by bytes behind its end, and what opens it be seen a moment later. */
#define BEHIND 65536

/* The translation of what goes the other way, or none. */
static __always_inline struct translation *other_way(const struct translation *to)
{
	struct flow flow = {};

	__builtin_memcpy(flow.addresses.source, to->to.addresses.destination, sizeof(flow.addresses.source));
	__builtin_memcpy(flow.addresses.destination, to->to.addresses.source, sizeof(flow.addresses.destination));
	flow.source_port = to->to.destination_port;
	flow.destination_port = to->to.source_port;
	return bpf_map_lookup_elem(&translations, &flow);
}

static __always_inline int is_after(__u32 number, __u32 other)
{
	return (__s32)(number - other) > 0;
}

/* Whether a number is one that the sender of `by` expects: of a byte of its receiver's, or of what that acknowledges. */
static __always_inline int is_expected(const struct translation *by, __u32 number)
{
	return !by->known || number - by->acknowledged <= by->room_end + BEHIND - by->acknowledged;
}

/*
 * A reset is believed that its receiver takes (RFC 5961 section 3.2): with the number of the next byte that it expects, be
 * that acknowledged already or on its way. To any other the receiver has the sender say whether it was meant.
 */
static __always_inline void reset(__u32 sequence, struct translation *to, const struct translation *back)
{
	if ((back->known && sequence == back->acknowledged) || (to->known && sequence == to->sent))
		to->reset = 1;
}

/* A new beginning has any number. It is believed behind the end of both directions, where the port may be used again. */
static __always_inline void begin_anew(struct translation *to, const struct translation *back)
{
	if (to->fin && back->fin)
		to->syn = 1;
}

/*
 * Remembers what a segment with both numbers in their windows says (RFC 5961 section 5). A FIN is believed once the other
 * end has acknowledged it, and nothing more.
 */
static __always_inline void remember(const struct tcphdr *old, const struct tcphdr *new, __u32 data,
				     struct translation *to, struct translation *back)
{
	__u32 sequence = bpf_ntohl(old->seq), end = sequence + data + old->fin;
	__u32 acknowledged = bpf_ntohl(new->ack_seq);
	__u32 room_end = acknowledged + ((__u32)bpf_ntohs(new->window) << (to->scale_out & 15));

	if (!old->ack || !is_expected(to, acknowledged) || (!is_expected(back, sequence) && !is_expected(back, end)))
		return;
	if (!to->known || is_after(end, to->sent))
		to->sent = end;
	if (!to->known || is_after(room_end, to->room_end))
		to->room_end = room_end;
	to->acknowledged = acknowledged;
	to->known = 1;
	if (old->fin) {
		to->end = end;
		to->ends = 1;
	}
	if (back->ends)
		back->fin = acknowledged == back->end;
}

/* Counts a segment with so many bytes of data, and marks what it tells of its connection. */
static __always_inline void tell(const struct tcphdr *old, const struct tcphdr *new, __u32 data, __u64 now,
				 struct translation *to)
{
	struct translation *back = other_way(to);

	__sync_fetch_and_add(&to->bytes, data);
	to->last = now;
	if (!back)
		return;
	if (old->rst)
		reset(bpf_ntohl(old->seq), to, back);
	else if (old->syn)
		begin_anew(to, back);
	else
		remember(old, new, data, to, back);
}
