"""Files: written whole and for their owner alone, read back or refused in one line; strict JSON; digests of values."""
