"""Attacks that test the price of a release: correct guesses about planted canaries are a lower bound on epsilon."""

from pate.extras import require_extra

require_extra(__name__, "train")


from pate.auditing.attack.attack import Attack

__all__ = ["Attack"]
