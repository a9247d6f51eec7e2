"""Testbed, workloads, benchmarks and plots: they use Tributary as any user would."""
