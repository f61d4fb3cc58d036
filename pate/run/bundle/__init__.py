"""The bundle that a run publishes: a student, its preprocessing, and its model card.

Nothing here knows teachers, votes or ledgers.
"""

from pate.run.bundle.bundle import Bundle, load
from pate.run.bundle.form import ModelForm

__all__ = ["Bundle", "ModelForm", "load"]
