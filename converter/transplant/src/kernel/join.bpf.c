/* What one TCP socket of a table reads another one writes, without a process in between (sockmap, bpf(2)). */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "flow.bpf.h"

#define AF_INET 2 /* linux/socket.h, which programs do not see */
#define MOST 65536 /* sockets; a connection has two */

/* By what comes in the socket that is to write it. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, MOST);
	__type(key, struct flow);
	__type(value, __u32);
} writers SEC(".maps");

/* A socket of IPv6 that has IPv4's addresses has them mapped. */
SEC("sk_skb/stream_verdict")
int join(struct __sk_buff *skb)
{
	struct flow flow = {
		.addresses = {
			{skb->remote_ip6[0], skb->remote_ip6[1], skb->remote_ip6[2], skb->remote_ip6[3]},
			{skb->local_ip6[0], skb->local_ip6[1], skb->local_ip6[2], skb->local_ip6[3]},
		},
		.source_port = bpf_htons(bpf_ntohl(skb->remote_port)),
		.destination_port = bpf_htons(skb->local_port),
	};

	if (skb->family == AF_INET) {
		map(flow.addresses.source, skb->remote_ip4);
		map(flow.addresses.destination, skb->local_ip4);
	}
	/* A FIN alone: to write nothing counts as a broken pipe (sk_psock_backlog() in net/core/skmsg.c). */
	if (!skb->len)
		return SK_PASS;
	return bpf_sk_redirect_hash(skb, &writers, &flow, 0);
}

char LICENCE[] SEC("license") = "GPL";
