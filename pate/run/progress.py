"""Monitors of a run, which are told each stage of long work and its progress."""

from pate.progress import Advance as Advance
from pate.progress import Monitor, Stage

__all__ = ["Monitor", "Stage"]
