/* Where a segment comes from and goes to: the key of both programs' tables. kernel/mod.rs has the same layout. */
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/*
 * In network byte order. An IPv4 address is mapped (RFC 4291 section 2.5.5.2): one table for both versions takes half of the
 * memory that two would, for two more rounds of its hash function.
 */
struct flow {
	struct addresses {
		__be32 source[4];
		__be32 destination[4];
	} addresses;
	__be16 source_port;
	__be16 destination_port;
};

static __always_inline void map(__be32 *address, __be32 ipv4)
{
	address[0] = address[1] = 0;
	address[2] = bpf_htonl(0xffff);
	address[3] = ipv4;
}

static __always_inline int is_mapped(const __be32 *address)
{
	return !address[0] && !address[1] && address[2] == bpf_htonl(0xffff);
}
