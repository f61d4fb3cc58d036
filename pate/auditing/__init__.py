"""Auditing: prices of published releases, data-dependent costs, lower bounds on prices, and attacks that test a price.

Within `pate`, only the modules of commands, in `pate.cli`, import these modules.
"""

from typing import TYPE_CHECKING

from pate.extras import lazily

if TYPE_CHECKING:
    from pate.auditing.attack import Attack
    from pate.auditing.lower_bound import lower_bound_of
    from pate.auditing.release_parameters import ReleaseParameters
    from pate.auditing.vote_audit import audit_votes

__all__ = ["Attack", "ReleaseParameters", "audit_votes", "lower_bound_of"]

_LATER = {
    "attack": "Attack",
    "lower_bound": "lower_bound_of",
    "release_parameters": "ReleaseParameters",
    "vote_audit": "audit_votes",
}
__getattr__ = lazily(__name__, names_of_module=_LATER)
