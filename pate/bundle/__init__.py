"""The bundle that a run publishes: a student, what it needs to be used, and what is known of it.

Nothing here knows teachers, votes or ledgers.
"""

from pate.bundle.bundle import Bundle, load
from pate.bundle.form import ModelForm

__all__ = ["Bundle", "ModelForm", "load"]
