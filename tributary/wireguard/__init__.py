"""The tunnels between a home router and its gateway: keys, inside addresses, and WireGuard's interfaces."""
