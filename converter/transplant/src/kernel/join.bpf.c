/* What one TCP socket of a table reads another one writes, without a process in between (sockmap, bpf(2)). */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2 /* linux/socket.h, which programs do not see */
#define MOST 65536 /* sockets; a connection has two */

/* Where a segment comes from and goes to, in network byte order. An IPv4 address is mapped (RFC 4291 section 2.5.5.2). */
struct flow {
	__be32 source[4];
	__be32 destination[4];
	__be16 source_port;
	__be16 destination_port;
};

/* By what comes in the socket that is to write it. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, MOST);
	__type(key, struct flow);
	__type(value, __u32);
} writers SEC(".maps");

static __always_inline void map(__be32 *address, __be32 ipv4)
{
	address[0] = address[1] = 0;
	address[2] = bpf_htonl(0xffff);
	address[3] = ipv4;
}

/* A socket of IPv6 that has IPv4's addresses has them mapped. */
SEC("sk_skb/stream_verdict")
int join(struct __sk_buff *skb)
{
	struct flow flow = {
		.source = {skb->remote_ip6[0], skb->remote_ip6[1], skb->remote_ip6[2], skb->remote_ip6[3]},
		.destination = {skb->local_ip6[0], skb->local_ip6[1], skb->local_ip6[2], skb->local_ip6[3]},
		.source_port = bpf_htons(bpf_ntohl(skb->remote_port)),
		.destination_port = bpf_htons(skb->local_port),
	};

	if (skb->family == AF_INET) {
		map(flow.source, skb->remote_ip4);
		map(flow.destination, skb->local_ip4);
	}

	/* A FIN alone: to write nothing counts as a broken pipe (sk_psock_backlog() in net/core/skmsg.c). */
	if (!skb->len)
		return SK_PASS;
	return bpf_sk_redirect_hash(skb, &writers, &flow, 0);
}

char LICENCE[] SEC("license") = "GPL";
