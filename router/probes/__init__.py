"""Probes of links: whether they lead anywhere, with what MTU, with MPTCP, past which login page."""
