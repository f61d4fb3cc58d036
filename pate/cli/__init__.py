"""The commands, each a Hydra app."""

from pate.cli.process import tell_shortages

tell_shortages()
