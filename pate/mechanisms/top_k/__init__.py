"""Top-k mechanisms: a file for each, on the base in `mechanism` and the order in `ranking`."""
