"""Attacks on one's own release: what guesses of planted canaries refute, beside the price that is printed."""

from pate.validation import require_extra

require_extra(__name__, "train")

from pate.attack.attack import Attack, AttackResult
from pate.attack.one_run import Guesses, PriceCurve

__all__ = ["Attack", "AttackResult", "Guesses", "PriceCurve"]
