"""A request hand-off on this machine: front, switch, back ends and a client, each in a network namespace of its own."""
