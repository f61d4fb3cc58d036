"""A campaign against commands: kills, faults, damage and bad input, for as many tries as somebody has time for."""
