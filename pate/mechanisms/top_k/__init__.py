"""Top-k mechanisms, each in a file of its own; `mechanism` has their base class, `ranking` sorts and ranks counts."""
