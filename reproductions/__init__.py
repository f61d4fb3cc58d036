"""Figures and tables of papers, made again with the package; the README beside this file says which, and how to run it.

They compare outcomes with noiseless counts and true labels, and so print what no epsilon covers: for public or one's
own data.
"""
