"""Queries whose results come out step by step, against two oracles that share no code with the engine."""
