"""Prices of Cohen & Lyu (2023), The Target-Charging Technique for Privacy Analysis.

Each call of a session is priced once, and the session pays for hits.
"""
