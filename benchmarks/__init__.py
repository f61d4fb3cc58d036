"""Benchmarks against floors measured in the same run, and campaigns of attacks: `python -m benchmarks`."""
