"""Aggregators that are charged once for a session and halt after a number of hits."""
