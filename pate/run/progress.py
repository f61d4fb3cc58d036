"""Monitors of a run, which are told each stage of long work and its progress."""

from pate.progress import Advance, Monitor, Stage

__all__ = ["Advance", "Monitor", "Stage"]
