"""Files that are written whole and for their owner alone, and read back or refused in a line; strict JSON; digests."""
