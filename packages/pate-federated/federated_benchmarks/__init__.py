"""Benchmarks of votes from many places."""
