"""One run: its plan, its folder, its randomness, and its stages."""
