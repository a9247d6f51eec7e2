"""What of the converter's benchmark can be measured alone: what a profile-and-improve loop needs again and again."""

COSTS, COUNTS, DELAY = "costs", "counts", "delay"
BULK, BULK_MANY, UPLOAD = "bulk", "bulk_many", "upload"
CONNECTIONS, REQUESTS = "connections", "requests"
MEASUREMENTS = (COSTS, COUNTS, DELAY, BULK, BULK_MANY, UPLOAD, CONNECTIONS, REQUESTS)

NATIVE = "native"
"""Ours, which takes part in any case."""
TUNNEL = "tunnel"
"""Ours as well, asked by CONNECT: it forwards bytes and looks at none, as its peers that forward TCP."""
DIRECT = "direct"
"""What stands for no converter at all among the peers."""
HAPROXY_HTTP = "haproxy_http"
"""HAProxy that reads each request, as ours does."""
PEERS = ("squid", "haproxy", HAPROXY_HTTP, "varnish", "nginx", "relay", DIRECT)
