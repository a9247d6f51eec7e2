"""A home router and its gateway on this machine, each a network namespace, with all of their real programs."""
