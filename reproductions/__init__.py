"""Experiments on top-k selection: mechanisms at one sound price, on counts of real or look-alike data.

They compare outcomes with noiseless counts, and so print what no epsilon covers: for public or one's own data.
"""
