/*
 * The same as tc's program does, for frames of which the kernel has made no packets yet (XDP, in the driver). Only what is
 * plain is rewritten here: IPv4 without options, in one piece, with its checksum in place, to a next hop that is known. All
 * else goes on to tc's program, which is behind it and has the same table: it also drops what cannot be rewritten, and has
 * the kernel look for next hops.
 */

#define AF_INET 2 /* sys/socket.h is not for this machine */
#define NANOSECONDS_SHIFT 20
#define SECOND 954 /* in 2^20 ns */

/* Where the headers of a frame are that may be plain. */
struct plain {
	struct ethhdr *ethernet;
	struct iphdr *ip;
	struct tcphdr *tcp;
};

/* What of an IPv4 header is rewritten and covered by a checksum, in whole words. */
union covered {
	struct {
		__be16 hops;
		__be16 nothing;
		__be32 source;
		__be32 destination;
	};
	__be32 words[3];
};

/* Whether it is what it is for: TCP in IPv4 with both headers whole. */
static __always_inline int is_plain(const struct plain *frame, __u32 bytes)
{
	const struct iphdr *ip = frame->ip;
	__u32 total = bpf_ntohs(ip->tot_len), length = frame->tcp->doff * 4;

	return frame->ethernet->h_proto == bpf_htons(ETH_P_IP) && ip->version == 4 && ip->ihl == 5 &&
	       ip->protocol == IPPROTO_TCP && !(ip->frag_off & bpf_htons(MORE_FRAGMENTS | FRAGMENT_OFFSET)) && ip->ttl > 1 &&
	       total + IP <= bytes && length >= OPTIONS && sizeof(*ip) + length <= total;
}

/*
 * Whether the checksum may still have to be computed (CHECKSUM_PARTIAL, of which a driver tells nothing here): what stands in
 * its place then is the sum of the addresses, the protocol and the length. One of 65536 whole checksums looks like that, too.
 */
static __always_inline int is_partial(const struct plain *frame)
{
	__u32 length = bpf_ntohs(frame->ip->tot_len) - sizeof(struct iphdr);
	__be32 pseudo[3] = {frame->ip->saddr, frame->ip->daddr, bpf_htonl(IPPROTO_TCP << 16 | length)};

	return frame->tcp->check == fold(bpf_csum_diff(NULL, 0, pseudo, sizeof(pseudo), 0));
}

/*
 * Whether tc is to have this one: to send a packet to a next hop is what makes the kernel find out that it has gone, and XDP
 * sends past that. So tc has one in a second, but not the first: what follows at once would overtake the beginning of an answer.
 */
static __always_inline int is_tcs_turn(struct translation *to, __u64 now)
{
	__u32 then = now >> NANOSECONDS_SHIFT, last = to->turn;

	if (last && then - last < SECOND)
		return 0;
	to->turn = then;
	return last != 0;
}

/* Finds the next hop's Ethernet addresses; 0, or another answer if there is none yet, or the packet is too long for it. */
static __always_inline int find_hop(struct xdp_md *xdp, const struct plain *frame, const struct translation *to,
				    struct bpf_fib_lookup *hop)
{
	hop->family = AF_INET;
	hop->l4_protocol = IPPROTO_TCP;
	hop->sport = to->to.source_port;
	hop->dport = to->to.destination_port;
	hop->tot_len = bpf_ntohs(frame->ip->tot_len);
	hop->tos = frame->ip->tos;
	hop->ipv4_src = to->to.addresses.source[3];
	hop->ipv4_dst = to->to.addresses.destination[3];
	hop->ifindex = to->device;
	return bpf_fib_lookup(xdp, hop, sizeof(*hop), BPF_FIB_LOOKUP_OUTPUT);
}

/* Puts other addresses into both headers, counts a hop, and has both checksums follow, of which TCP's is `sum` so far. */
static __always_inline void readdress(struct plain *frame, const struct addresses *to, __u32 sum,
				      const struct bpf_fib_lookup *hop)
{
	struct iphdr *ip = frame->ip;
	__be16 *hops = (__be16 *)&ip->ttl;
	union covered before = {.hops = *hops, .source = ip->saddr, .destination = ip->daddr};
	union covered after;

	ip->ttl--;
	ip->saddr = to->source[3];
	ip->daddr = to->destination[3];
	after = (union covered){.hops = *hops, .source = ip->saddr, .destination = ip->daddr};
	sum = bpf_csum_diff(before.words + 1, 8, after.words + 1, 8, sum);
	frame->tcp->check = ~fold(sum);
	sum = bpf_csum_diff(before.words, sizeof(before), after.words, sizeof(after), (__u16)~ip->check);
	ip->check = ~fold(sum);
	__builtin_memcpy(frame->ethernet->h_dest, hop->dmac, ETH_ALEN);
	__builtin_memcpy(frame->ethernet->h_source, hop->smac, ETH_ALEN);
}

SEC("xdp")
int offload_frame(struct xdp_md *xdp)
{
	void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
	struct plain headers = {data, data + IP, data + IP + sizeof(struct iphdr)}, *frame = &headers;
	struct bpf_fib_lookup hop = {};
	union header old = {}, new;
	struct translation *to;
	struct flow flow = {};
	__u32 length, sum;
	__u64 now;

	if ((void *)(headers.tcp + 1) > end || !is_plain(frame, end - data))
		return XDP_PASS;
	map(flow.addresses.source, frame->ip->saddr);
	map(flow.addresses.destination, frame->ip->daddr);
	flow.source_port = frame->tcp->source;
	flow.destination_port = frame->tcp->dest;
	to = bpf_map_lookup_elem(&translations, &flow);
	if (!to || is_elsewhere(to, xdp->ingress_ifindex))
		return XDP_PASS;
	now = bpf_ktime_get_ns();
	length = frame->tcp->doff * 4;
	/* Each end of the range by itself: the compiler makes one comparison of both, which tells an older verifier nothing. */
	FORGET(length);
	if (length < OPTIONS)
		return XDP_PASS;
	FORGET(length);
	if (is_partial(frame) || is_tcs_turn(to, now) || length > LONGEST ||
	    bpf_xdp_load_bytes(xdp, IP + sizeof(struct iphdr), &old, length))
		return XDP_PASS;
	new = old;
	if (options(&new, length, to))
		return XDP_PASS;
	fixed_part(&new.tcp, &old.tcp, to);
	if (find_hop(xdp, frame, to, &hop) || bpf_xdp_store_bytes(xdp, IP + sizeof(struct iphdr), &new, length))
		return XDP_PASS;
	sum = bpf_csum_diff(old.words, LONGEST, new.words, LONGEST, (__u16)~old.tcp.check);
	readdress(frame, &to->to.addresses, sum, &hop);
	tell(&old.tcp, &new.tcp, bpf_ntohs(frame->ip->tot_len) - sizeof(struct iphdr) - length, now, to);
	return bpf_redirect(hop.ifindex, 0);
}
