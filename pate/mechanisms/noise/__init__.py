"""Noise: exact samplers, and the distributions of maxima and orders of noisy values."""
