"""The gateway's side of the tunnels: which home routers are enrolled, with their keys, and what they may reach."""
