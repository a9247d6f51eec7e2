"""Benchmarks: each measures ours beside its peers in the same run, and prints ratios."""
