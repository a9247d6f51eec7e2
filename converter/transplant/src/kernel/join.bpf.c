/* What one TCP socket of a table reads another one writes, without a process in between (sockmap, bpf(2)). */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

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

SEC("sk_skb/stream_verdict")
int join(struct __sk_buff *skb)
{
	struct flow flow = {
		.source = {0, 0, bpf_htonl(0xffff), skb->remote_ip4},
		.destination = {0, 0, bpf_htonl(0xffff), skb->local_ip4},
		.source_port = bpf_htons(bpf_ntohl(skb->remote_port)),
		.destination_port = bpf_htons(skb->local_port),
	};

	/* A FIN alone: to write nothing counts as a broken pipe (sk_psock_backlog() in net/core/skmsg.c). */
	if (!skb->len)
		return SK_PASS;
	return bpf_sk_redirect_hash(skb, &writers, &flow, 0);
}

char LICENCE[] SEC("license") = "GPL";
