"""A Flower app that releases the votes of the small run."""
