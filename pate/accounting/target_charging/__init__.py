"""Target charging: pay for the outcomes that matter, not for every call."""

from pate.accounting.target_charging.best_play import best_play_delta
from pate.accounting.target_charging.hit_tail import min_accesses, overrun_probability
from pate.accounting.target_charging.price import SessionPrice, best_session_price
from pate.accounting.target_charging.session import TargetCharging
from pate.accounting.target_charging.target_optimality import boundary_distribution, exact_hit_prob
from pate.accounting.target_charging.targets import (
    QTarget,
    between_thresholds,
    boundary,
    common_target,
    not_prior,
    revise,
    run_twice,
    tight_boundary,
)

__all__ = [
    "QTarget",
    "SessionPrice",
    "TargetCharging",
    "best_play_delta",
    "best_session_price",
    "between_thresholds",
    "boundary",
    "boundary_distribution",
    "common_target",
    "exact_hit_prob",
    "min_accesses",
    "not_prior",
    "overrun_probability",
    "revise",
    "run_twice",
    "tight_boundary",
]
