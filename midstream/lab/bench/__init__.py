"""Benchmarks: each checks its own answer, states what it compares, and runs its contenders in one run."""
