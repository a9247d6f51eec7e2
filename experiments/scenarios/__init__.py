"""The experiments, one file each: topology, workload, what is derived, what is expected and why."""
