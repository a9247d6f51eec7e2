"""IPv6 in the LAN."""
