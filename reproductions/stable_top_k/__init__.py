"""Experiments of Zhu & Wang (2022), Adaptive Private-K-Selection with Adaptive K and Application to PATE."""
