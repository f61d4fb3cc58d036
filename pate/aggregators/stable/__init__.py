"""Aggregators that release a set of labels where it is stable."""
