"""Files that are complete or absent and readable by their owner alone; strict JSON; digests."""
