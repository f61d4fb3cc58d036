"""Attacks that test the price of a release: what they learn about planted canaries yields a lower bound on epsilon."""

from pate.extras import require_extra

require_extra(__name__, "train")


from pate.auditing.attack.attack import Attack

__all__ = ["Attack"]
