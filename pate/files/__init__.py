"""Atomic writes, strict JSON, and digests of values."""
