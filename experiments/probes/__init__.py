"""Small programs that run inside a node and measure from there; each prints JSON."""
