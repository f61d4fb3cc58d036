"""Centered votes in rounds against a public student."""
