"""Squid as the HTTP converter: MPTCP towards clients, plain TCP towards servers."""
