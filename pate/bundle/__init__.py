"""The bundle, which is a published model: a student, its preprocessing, and its model card.

The code of bundles reads no teachers, votes or ledgers.
"""

from pate.bundle.bundle import Bundle, load
from pate.bundle.model_form import ModelForm

__all__ = ["Bundle", "ModelForm", "load"]
