"""Optimal adaptive composition: dominating pairs, one step on a grid of losses, the exact accountant."""
