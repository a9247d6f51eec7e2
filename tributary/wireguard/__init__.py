"""The encrypted leg between a home router and its gateway: keys, addresses inside, and WireGuard's interfaces."""
