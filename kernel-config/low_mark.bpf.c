// From Linux 6.7 on a subflow is exempt from net.ipv4.tcp_notsent_lowat (mptcp_sockopt_sync_locked() in
// net/mptcp/sockopt.c): this takes the exemption away. Where a namespace has no low mark nothing changes.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define SOL_TCP 6
#define TCP_NOTSENT_LOWAT 25

// Also a connection of TCP alone that its program exempted before its first segments: the kernel does not tell us which.
#define EXEMPT (-1)
#define AS_ITS_NAMESPACE 0
// The kernel exempts a subflow when it joins, maybe after it is established: at its first samples of the round-trip
// time it is so, or it belongs to no session.
#define LATEST_SEGMENT 64

SEC("sockops")
int low_mark(struct bpf_sock_ops *connection)
{
	int mark = AS_ITS_NAMESPACE;

	if (connection->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || connection->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		bpf_sock_ops_cb_flags_set(connection, connection->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
		return 1;
	}
	if (connection->op != BPF_SOCK_OPS_RTT_CB)
		return 1;
	bpf_getsockopt(connection, SOL_TCP, TCP_NOTSENT_LOWAT, &mark, sizeof(mark));
	if (mark != EXEMPT && connection->segs_out < LATEST_SEGMENT)
		return 1;
	if (mark == EXEMPT) {
		mark = AS_ITS_NAMESPACE;
		bpf_setsockopt(connection, SOL_TCP, TCP_NOTSENT_LOWAT, &mark, sizeof(mark));
	}
	bpf_sock_ops_cb_flags_set(connection, connection->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_RTT_CB_FLAG);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
