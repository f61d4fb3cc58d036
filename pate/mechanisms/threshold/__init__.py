"""Noisy comparisons with thresholds."""
