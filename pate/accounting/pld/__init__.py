"""Composition of privacy-loss distributions through Google's dp-accounting."""
