"""The bundle that a run publishes: a student, its preprocessing, and its model card.

Nothing here knows teachers, votes or ledgers.
"""

from pate.bundle.bundle import Bundle, ModelForm, load

__all__ = ["Bundle", "ModelForm", "load"]
