"""Figures and tables of papers, computed again with the package; the README next to this file lists them.

They compare outcomes with noiseless counts and true labels, and so print what no epsilon covers: for public or one's
own data.
"""
