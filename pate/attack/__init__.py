"""Attacks on one's own release: what guesses of planted canaries refute, beside the price that is printed."""

from pate.extras import require_extra

require_extra(__name__, "train")


from pate.attack.attack import Attack

__all__ = ["Attack"]
