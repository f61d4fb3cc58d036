"""The stages of a run apart: a holder casts votes, an aggregator releases labels, anyone trains the student."""
