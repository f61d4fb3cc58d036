"""The commands, each a Hydra app."""
