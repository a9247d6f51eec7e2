"""A whole overlay on this machine: nodes with the delays of a graph, each with a converter and an agent."""
