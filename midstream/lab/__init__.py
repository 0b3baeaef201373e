"""Workload generators and benchmarks."""
