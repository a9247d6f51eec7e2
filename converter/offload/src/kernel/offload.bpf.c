/*
 * Segments of one TCP connection rewritten as segments of another one, where they come in (tc, clsact's ingress; Ethernet).
 * The same as translation.rs does, whose tests run this as well.
 */
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include "segment.bpf.h"

#include "belief.bpf.h"

/* What is asked of an IP header, whichever its version is. */
struct packet {
	union {
		struct iphdr ipv4;
		struct ipv6hdr ipv6;
	};
	__u32 length; /* of the header, in bytes */
	__u32 total;  /* of the packet, by what it says itself */
	__u8 version;
	__u8 hops;
	__u8 refused; /* it has options, or is a part of a packet */
};

/* Whether what comes by this device cannot be what the translation is for: it is forged. */
static __always_inline int is_elsewhere(const struct translation *to, __u32 device)
{
	return to->came_by && to->came_by != device;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline int refuse(struct translation *to)
{
	__sync_fetch_and_add(&to->refused, 1);
	return TC_ACT_SHOT;
}

/* Puts other addresses into an IPv4 header, counts a hop, and has its checksum follow. */
static __always_inline int forward_ipv4(struct __sk_buff *skb, const struct iphdr *ip, const struct addresses *to)
{
	__be32 before[2] = {ip->saddr, ip->daddr};
	__be32 after[2] = {to->source[3], to->destination[3]};
	__s64 addresses = bpf_csum_diff(before, sizeof(before), after, sizeof(after), 0);
	__u32 sum = IP + offsetof(struct iphdr, check);
	__be16 hops = bpf_htons((__u16)ip->ttl << 8 | ip->protocol);
	__be16 fewer = bpf_htons((__u16)(ip->ttl - 1) << 8 | ip->protocol);

	if (bpf_skb_store_bytes(skb, IP + offsetof(struct iphdr, ttl), &fewer, sizeof(fewer), 0) ||
	    bpf_l3_csum_replace(skb, sum, hops, fewer, sizeof(fewer)) ||
	    bpf_skb_store_bytes(skb, IP + offsetof(struct iphdr, saddr), after, sizeof(after), 0) ||
	    bpf_l3_csum_replace(skb, sum, 0, addresses, 0))
		return -1;
	return 0;
}

/*
 * The same for a TCP segment, whose own checksum covers the addresses. While it is still to be computed (CHECKSUM_PARTIAL) it
 * has them only: the kernel's helpers know.
 */
static __always_inline int readdress_ipv4(struct __sk_buff *skb, const struct iphdr *ip, const struct addresses *to)
{
	__be32 before[2] = {ip->saddr, ip->daddr};
	__be32 after[2] = {to->source[3], to->destination[3]};
	__s64 addresses = bpf_csum_diff(before, sizeof(before), after, sizeof(after), 0);

	if (bpf_l4_csum_replace(skb, IP + sizeof(*ip) + CHECKSUM, 0, addresses, BPF_F_PSEUDO_HDR))
		return -1;
	return forward_ipv4(skb, ip, to);
}

/*
 * The same for IPv6, with the place of the checksum of TCP or ICMPv6, both of which cover the addresses. Its header has no
 * checksum of its own that makes up for what changes in it, so the sum that a network
 * interface made of the whole packet (CHECKSUM_COMPLETE) has to follow the header's bytes. For the addresses that takes back
 * what the first helper does to that sum, which is right for IPv4 alone (inet_proto_csum_replace_by_diff() in
 * net/core/utils.c).
 */
static __always_inline int forward_ipv6(struct __sk_buff *skb, struct ipv6hdr *ip, __u32 checksum,
					const struct addresses *to)
{
	__s64 addresses = bpf_csum_diff((__be32 *)&ip->saddr, sizeof(*to), (__be32 *)to, sizeof(*to), 0);

	if (bpf_l4_csum_replace(skb, checksum, 0, addresses, BPF_F_PSEUDO_HDR))
		return -1;
	ip->hop_limit--;
	__builtin_memcpy(&ip->saddr, to->source, sizeof(to->source));
	__builtin_memcpy(&ip->daddr, to->destination, sizeof(to->destination));
	return bpf_skb_store_bytes(skb, IP, ip, sizeof(*ip), BPF_F_RECOMPUTE_CSUM);
}

/* Puts both headers in; 0, or -1 if the kernel has no memory for it. */
static __always_inline int put(struct __sk_buff *skb, struct packet *packet, union header *old, union header *new,
			       __u32 length, const struct translation *to)
{
	__s64 changed = bpf_csum_diff(old->words, LONGEST, new->words, LONGEST, 0);
	__u32 tcp = IP + packet->length;

	if (bpf_skb_store_bytes(skb, tcp, new, length, 0) || bpf_l4_csum_replace(skb, tcp + CHECKSUM, 0, changed, 0))
		return -1;
	if (packet->version == 4)
		return readdress_ipv4(skb, &packet->ipv4, &to->to.addresses);
	return forward_ipv6(skb, &packet->ipv6, tcp + CHECKSUM, &to->to.addresses);
}

/* Reads an IPv4 header and its addresses; -1 if no TCP header begins behind it. */
static __always_inline int read_ipv4(struct __sk_buff *skb, struct packet *packet, struct addresses *addresses)
{
	struct iphdr *ip = &packet->ipv4;

	if (bpf_skb_load_bytes(skb, IP, ip, sizeof(*ip)) || ip->version != 4 || ip->ihl < 5 ||
	    ip->protocol != IPPROTO_TCP || ip->frag_off & bpf_htons(FRAGMENT_OFFSET))
		return -1;
	map(addresses->source, ip->saddr);
	map(addresses->destination, ip->daddr);
	packet->version = 4;
	packet->length = ip->ihl * 4;
	packet->total = bpf_ntohs(ip->tot_len);
	packet->hops = ip->ttl;
	packet->refused = ip->ihl != 5 || ip->frag_off & bpf_htons(MORE_FRAGMENTS);
	return 0;
}

/*
 * The same for IPv6. What is behind an extension header is not looked for. A mapped address is none of a packet's, and must
 * not be taken for one of IPv4.
 */
static __always_inline int read_ipv6(struct __sk_buff *skb, struct packet *packet, struct addresses *addresses)
{
	struct ipv6hdr *ip = &packet->ipv6;

	if (bpf_skb_load_bytes(skb, IP, ip, sizeof(*ip)) || ip->version != 6 || ip->nexthdr != IPPROTO_TCP)
		return -1;
	__builtin_memcpy(addresses->source, &ip->saddr, sizeof(addresses->source));
	__builtin_memcpy(addresses->destination, &ip->daddr, sizeof(addresses->destination));
	packet->version = 6;
	packet->length = sizeof(*ip);
	packet->total = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	packet->hops = ip->hop_limit;
	packet->refused = 0;
	return is_mapped(addresses->source) ? -1 : 0;
}

/* The translation for a packet, or none if it is not of an offloaded connection. */
static __always_inline struct translation *find(struct __sk_buff *skb, struct packet *packet)
{
	struct flow flow = {};
	int failed = -1;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		failed = read_ipv4(skb, packet, &flow.addresses);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		failed = read_ipv6(skb, packet, &flow.addresses);
	if (failed || bpf_skb_load_bytes(skb, IP + packet->length, &flow.source_port, 4))
		return NULL;
	return bpf_map_lookup_elem(&translations, &flow);
}

#include "icmp.bpf.h"

SEC("classifier")
int offload_packet(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct translation *to = find(skb, &packet);
	union header old = {}, new;
	__u32 length;

	if (!to)
		return too_long(skb);
	if (is_elsewhere(to, skb->ifindex) || packet.refused || packet.total + IP > skb->len ||
	    packet.total < packet.length + OPTIONS || packet.hops <= 1 ||
	    bpf_skb_load_bytes(skb, IP + packet.length, &old, OPTIONS))
		return refuse(to);
	length = old.tcp.doff * 4;
	if (length < OPTIONS || packet.length + length > packet.total)
		return refuse(to);
	FORGET(length);
	if (length > LONGEST || bpf_skb_load_bytes(skb, IP + packet.length, &old, length))
		return refuse(to);
	new = old;
	if (options(&new, length, to)) {
		struct translation *back = other_way(to);

		/* A new beginning mostly has options that cannot be: that there is one counts all the same. */
		if (old.tcp.syn && back)
			begin_anew(to, back);
		return refuse(to);
	}
	fixed_part(&new.tcp, &old.tcp, to);
	if (put(skb, &packet, &old, &new, length, to))
		return TC_ACT_SHOT;
	tell(&old.tcp, &new.tcp, packet.total - packet.length - length, bpf_ktime_get_ns(), to);
	return bpf_redirect_neigh(to->device, NULL, 0, 0);
}

#include "driver.bpf.h"

/* What of the kernel's structures is asked for, wherever the running kernel has it (BTF). */
struct tcp_options_received {
	__u32 ts_recent;
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct tcp_options_received rx_opt;
} __attribute__((preserve_access_index));

/* The connection's socket that a flow comes in by, or none. */
static __always_inline struct bpf_sock *socket_of(struct __sk_buff *skb, const struct flow *flow)
{
	const struct addresses *addresses = &flow->addresses;
	struct bpf_sock_tuple tuple = {};

	if (is_mapped(addresses->source)) {
		tuple.ipv4.saddr = addresses->source[3];
		tuple.ipv4.daddr = addresses->destination[3];
		tuple.ipv4.sport = flow->source_port;
		tuple.ipv4.dport = flow->destination_port;
		return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	__builtin_memcpy(&tuple.ipv6, flow, sizeof(tuple.ipv6));
	return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
}

/*
 * Not attached, but run by whoever checkpoints a connection: the frame has its flow as it comes in behind the Ethernet header,
 * and gets the last timestamp that the other end sent in its place. 0, or 1 if there is no such connection.
 */
SEC("classifier")
int last_timestamp(struct __sk_buff *skb)
{
	struct flow flow;
	struct bpf_sock *socket;
	struct tcp_sock *tcp;
	__u32 timestamp;

	if (bpf_skb_load_bytes(skb, IP, &flow, sizeof(flow)))
		return 1;
	socket = socket_of(skb, &flow);
	if (!socket)
		return 1;
	tcp = bpf_skc_to_tcp_sock(socket);
	timestamp = tcp ? tcp->rx_opt.ts_recent : 0;
	bpf_sk_release(socket);
	return !tcp || bpf_skb_store_bytes(skb, IP, &timestamp, sizeof(timestamp), 0);
}

/* What `lead` is told: which packets go out by which device from now on. */
struct lead {
	struct flow flow;
	__u32 device;
};

/*
 * Not attached, but run by whoever has found another way: the frame has that behind the Ethernet header. In the table's value
 * nothing else is touched, which packets change at the same time. 0, or 1 if there is no such translation.
 */
SEC("classifier")
int lead(struct __sk_buff *skb)
{
	struct translation *to;
	struct lead lead;

	if (bpf_skb_load_bytes(skb, IP, &lead, sizeof(lead)))
		return 1;
	to = bpf_map_lookup_elem(&translations, &lead.flow);
	if (!to)
		return 1;
	to->device = lead.device;
	return 0;
}

char LICENCE[] SEC("license") = "GPL";
