"""The gateway's side of the tunnels: which home routers are let in, by their keys, and what they may reach."""
