"""Noise: exact samplers, exact comparisons of noisy values, and distributions of the largest of noisy values."""
