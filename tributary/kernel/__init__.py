"""All access of the Python services to the kernel: programs, netlink, tc, nft, WireGuard, settings."""
