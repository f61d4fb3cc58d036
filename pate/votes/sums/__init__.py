"""Votes of which only sums are known, with noise or without."""
