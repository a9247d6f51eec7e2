/*
 * A router says that a packet was too long for the next link, and how long it may be (RFC 1191 section 4, RFC 8201 section
 * 3), by its first bytes: as it was when it had been rewritten. It is to get to who sent that packet before, with its bytes
 * as they were then: nobody else can send shorter ones.
 */

/* Both versions' headers begin so; linux/icmp.h is not for this machine. */
struct icmp {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 mtu;
};

#define UNREACHABLE 3 /* RFC 792, and why: */
#define TOO_LONG 4
#define TOO_LONG_IPV6 2 /* RFC 4443 section 3.2 */
#define PORTS_AND_SEQUENCE 8
/* Words of the packet's first bytes: its header, and TCP's up to the sequence number. */
#define QUOTED_IPV4 ((sizeof(struct iphdr) + PORTS_AND_SEQUENCE) / 4)
#define QUOTED_IPV6 ((sizeof(struct ipv6hdr) + PORTS_AND_SEQUENCE) / 4)

/* What is quoted, by the version of IP. */
union quoted {
	struct {
		struct iphdr ip;
		__be16 ports[2];
		__be32 sequence;
	} ipv4;
	struct {
		struct ipv6hdr ip;
		__be16 ports[2];
		__be32 sequence;
	} ipv6;
	__be32 words[QUOTED_IPV6];
};

/* By what was quoted the translation of what comes from where it was going to. */
static __always_inline struct translation *of_answers(const __be16 *ports, struct flow *flow)
{
	flow->source_port = ports[1];
	flow->destination_port = ports[0];
	return bpf_map_lookup_elem(&translations, flow);
}

/* Puts what was quoted back to what it was before it was rewritten, all but its addresses. */
static __always_inline void unwrite(__be16 *ports, __be32 *sequence, const struct translation *to)
{
	ports[0] = to->to.destination_port;
	ports[1] = to->to.source_port;
	*sequence = bpf_htonl(bpf_ntohl(*sequence) + to->acknowledgement);
}

static __always_inline int too_long_ipv4(struct __sk_buff *skb)
{
	__u32 icmp = IP + sizeof(struct iphdr), bytes = QUOTED_IPV4 * 4;
	union quoted old = {}, new;
	struct translation *to;
	struct flow flow = {};
	struct icmp header;
	struct iphdr ip;
	__u32 sum;

	if (bpf_skb_load_bytes(skb, IP, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl != 5 || ip.protocol != IPPROTO_ICMP ||
	    ip.frag_off & bpf_htons(FRAGMENT_OFFSET | MORE_FRAGMENTS) || ip.ttl <= 1 ||
	    bpf_skb_load_bytes(skb, icmp, &header, sizeof(header)) || header.type != UNREACHABLE ||
	    header.code != TOO_LONG || bpf_skb_load_bytes(skb, icmp + sizeof(header), &old, bytes) ||
	    old.ipv4.ip.version != 4 || old.ipv4.ip.ihl != 5 || old.ipv4.ip.protocol != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	map(flow.addresses.source, old.ipv4.ip.daddr);
	map(flow.addresses.destination, old.ipv4.ip.saddr);
	to = of_answers(old.ipv4.ports, &flow);
	if (!to)
		return TC_ACT_UNSPEC;
	if (is_elsewhere(to, skb->ifindex))
		return refuse(to);
	new = old;
	new.ipv4.ip.saddr = to->to.addresses.destination[3];
	new.ipv4.ip.daddr = to->to.addresses.source[3];
	sum = bpf_csum_diff(&old.ipv4.ip.saddr, 8, &new.ipv4.ip.saddr, 8, (__u16)~old.ipv4.ip.check);
	new.ipv4.ip.check = ~fold(sum);
	unwrite(new.ipv4.ports, &new.ipv4.sequence, to);
	sum = bpf_csum_diff(old.words, bytes, new.words, bytes, 0);
	if (bpf_skb_store_bytes(skb, icmp + sizeof(header), &new, bytes, 0) ||
	    bpf_l4_csum_replace(skb, icmp + offsetof(struct icmp, checksum), 0, sum, 0) ||
	    forward_ipv4(skb, &ip, &to->to.addresses))
		return TC_ACT_SHOT;
	return bpf_redirect_neigh(to->device, NULL, 0, 0);
}

static __always_inline int too_long_ipv6(struct __sk_buff *skb)
{
	__u32 icmp = IP + sizeof(struct ipv6hdr), bytes = QUOTED_IPV6 * 4;
	union quoted old = {}, new;
	struct translation *to;
	struct flow flow = {};
	struct icmp header;
	struct ipv6hdr ip;
	__u32 sum;

	if (bpf_skb_load_bytes(skb, IP, &ip, sizeof(ip)) || ip.version != 6 || ip.nexthdr != IPPROTO_ICMPV6 ||
	    ip.hop_limit <= 1 || bpf_skb_load_bytes(skb, icmp, &header, sizeof(header)) ||
	    header.type != TOO_LONG_IPV6 || bpf_skb_load_bytes(skb, icmp + sizeof(header), &old, bytes) ||
	    old.ipv6.ip.version != 6 || old.ipv6.ip.nexthdr != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	__builtin_memcpy(flow.addresses.source, &old.ipv6.ip.daddr, sizeof(flow.addresses.source));
	__builtin_memcpy(flow.addresses.destination, &old.ipv6.ip.saddr, sizeof(flow.addresses.destination));
	to = is_mapped(flow.addresses.source) ? NULL : of_answers(old.ipv6.ports, &flow);
	if (!to)
		return TC_ACT_UNSPEC;
	if (is_elsewhere(to, skb->ifindex))
		return refuse(to);
	new = old;
	__builtin_memcpy(&new.ipv6.ip.saddr, to->to.addresses.destination, sizeof(new.ipv6.ip.saddr));
	__builtin_memcpy(&new.ipv6.ip.daddr, to->to.addresses.source, sizeof(new.ipv6.ip.daddr));
	unwrite(new.ipv6.ports, &new.ipv6.sequence, to);
	sum = bpf_csum_diff(old.words, bytes, new.words, bytes, 0);
	if (bpf_skb_store_bytes(skb, icmp + sizeof(header), &new, bytes, 0) ||
	    bpf_l4_csum_replace(skb, icmp + offsetof(struct icmp, checksum), 0, sum, 0) ||
	    forward_ipv6(skb, &ip, icmp + offsetof(struct icmp, checksum), &to->to.addresses))
		return TC_ACT_SHOT;
	return bpf_redirect_neigh(to->device, NULL, 0, 0);
}

/* What becomes of a packet that may be such a message. It is not static, so the verifier looks at it by itself. */
int too_long(struct __sk_buff *skb)
{
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return too_long_ipv4(skb);
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return too_long_ipv6(skb);
	return TC_ACT_UNSPEC;
}
