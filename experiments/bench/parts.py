"""What of the converter's benchmark can be measured alone: what a profile-and-improve loop needs again and again."""

COSTS, DELAY = "costs", "delay"
BULK, BULK_MANY, UPLOAD = "bulk", "bulk_many", "upload"
CONNECTIONS, REQUESTS = "connections", "requests"
MEASUREMENTS = (COSTS, DELAY, BULK, BULK_MANY, UPLOAD, CONNECTIONS, REQUESTS)

NATIVE = "native"
"""Ours, which takes part in any case."""
DIRECT = "direct"
"""What stands for no converter at all among the peers."""
PEERS = ("squid", "haproxy", "varnish", "nginx", "relay", DIRECT)
