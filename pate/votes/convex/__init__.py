"""Votes of linear teachers whose training is strongly convex."""
