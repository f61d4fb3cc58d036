"""Benchmarks against floors measured in the same run, `python -m benchmarks`, and campaigns of attacks."""
