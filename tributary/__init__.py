"""The library that all Python parts share: settings, daemons, Multipath TCP and WireGuard."""
