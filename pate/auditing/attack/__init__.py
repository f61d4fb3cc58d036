"""Attacks on one's own release: the prices that guesses of planted canaries refute, beside the printed price."""

from pate.extras import require_extra

require_extra(__name__, "train")


from pate.auditing.attack.attack import Attack

__all__ = ["Attack"]
