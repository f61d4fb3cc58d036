"""Compares exact divergences with prices, and the moves of sums with sensitivities."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.stats import norm

from pate.accounting import Adjacency, Event
from pate.accounting.event_tree import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.array_types import FloatArray
from pate.testing import Claim, Verdict, verify_densities, verify_distributions
from pate.testing.claim import ORDERS as _ORDERS
from pate.testing.divergences import RELATIVE_SLACK, SLACK, hockey_stick, logs, renyi

ORDERS: FloatArray = np.array(_ORDERS)


def largest_renyi(
    first_laws: FloatArray, second_laws: FloatArray, renyi_orders: FloatArray = ORDERS
) -> FloatArray:
    """Returns the largest Renyi divergence of N first laws `[N, n]` from N second laws, for each Renyi order."""
    return np.asarray(
        renyi(logs(first_laws), log_second_laws=logs(second_laws), renyi_orders=renyi_orders).max(
            axis=0
        )
    )


def largest_delta(first_laws: FloatArray, second_laws: FloatArray, epsilon: float) -> float:
    """Returns the largest hockey-stick divergence of N first laws `[N, n]` from N second laws, at an epsilon."""
    return float(hockey_stick(first_laws, second_laws, epsilon).max())


def largest_log_ratio(first_laws: FloatArray, second_laws: FloatArray) -> float:
    """Returns the largest log-likelihood ratio over all pairs and outcomes: the exact epsilon of pure DP."""
    return float(_log_ratios(first_laws, second_laws, impossible_ratio=-np.inf).max())


def largest_range(first_laws: FloatArray, second_laws: FloatArray) -> float:
    """Returns the largest spread of log-likelihood ratios within one pair: the exact bounded range."""
    high = _log_ratios(first_laws, second_laws, impossible_ratio=-np.inf)
    low = _log_ratios(first_laws, second_laws, impossible_ratio=np.inf)
    return float((high.max(axis=1) - low.min(axis=1)).max())


def _log_ratios(first: FloatArray, second: FloatArray, *, impossible_ratio: float) -> FloatArray:
    """Returns the log-likelihood ratio of each outcome.

    It is `impossible_ratio` if the outcome has probability 0 on both sides.
    """
    with np.errstate(invalid="ignore"):
        return np.where((first == 0) & (second == 0), impossible_ratio, logs(first) - logs(second))


def price_curve(event: Event, renyi_orders: FloatArray = ORDERS) -> FloatArray:
    """Returns the price of an event as a Renyi divergence at each order, which holds unless the event fails."""
    return rdp_curve(count_leaves(event), renyi_orders)


def assert_covered(renyi_divergence: FloatArray, renyi_price: FloatArray) -> float:
    """Fails if a Renyi divergence exceeds its price.

    Returns the largest ratio of the divergence to the price over all Renyi orders.
    """
    ratio = float((renyi_divergence / np.maximum(renyi_price, 1e-300)).max())
    assert (renyi_divergence <= renyi_price * (1 + RELATIVE_SLACK) + SLACK).all(), (
        f"the exact figure is {ratio:.4f} of its price"
    )
    return ratio


def assert_refuted(renyi_divergence: FloatArray, renyi_price: FloatArray) -> None:
    """Fails unless `assert_covered` finds that a price is too small. Tests use it for negative controls."""
    with pytest.raises(AssertionError, match="of its price"):
        assert_covered(renyi_divergence=renyi_divergence, renyi_price=renyi_price)


def assert_delta_covered(first_laws: FloatArray, second_laws: FloatArray, event: Event) -> float:
    """Fails if an exact hockey-stick divergence exceeds the delta of the accountant.

    Returns the largest ratio of the two.
    """
    verdict = verify_distributions(
        first_laws, second_laws, event=Claim.from_event(event, orders=())
    )
    assert verdict.sound, f"the exact figure is {verdict.ratio:.4f} of its price: {verdict.worst}"
    return verdict.ratio


def verdict_on_shift(mean_shift: float, event: Event) -> Verdict:
    """Returns the verdict on a price for the pair of standard normal noise and the same noise moved by `mean_shift`."""
    return verify_densities(
        first=norm(loc=0.0).logpdf,
        second=norm(loc=mean_shift).logpdf,
        low=-40.0,
        high=40.0,
        event=event,
    )


def largest_move(contributions: FloatArray, adjacency: Adjacency) -> float:
    """Returns the largest l2 distance by which one contribution, a row of `contributions`, can move the sum.

    Under replace-one the row is replaced by any other row; under add/remove it is added or removed.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return float(np.linalg.norm(contributions, axis=1).max())
    return float(max(np.linalg.norm(contributions - part, axis=1).max() for part in contributions))


def assert_reached(
    contributions: ArrayLike, adjacency: Adjacency, claimed_l2_sensitivity: float
) -> None:
    """Fails if one contribution can move a sum by more than the claimed distance, or if none moves it by 90% of that.

    Args:
        contributions: all that one teacher or group may add to the sum, `[num_contributions, num_entries]`.
        adjacency: whether a contribution is replaced by another, or added and removed.
        claimed_l2_sensitivity: the claimed l2 distance.
    """
    moved = largest_move(np.asarray(contributions, dtype=np.float64), adjacency)
    assert 0.9 * claimed_l2_sensitivity < moved <= claimed_l2_sensitivity


def record_constructed(
    monkeypatch: pytest.MonkeyPatch, *, module_name: str, class_name: str
) -> list[Any]:
    """Returns a list to which each object is added that a module constructs of a class from now on.

    Args:
        monkeypatch: replaces the class in the module during the test.
        module_name: the full name of the module.
        class_name: the name of the class in the module.
    """
    original_class = getattr(import_module(module_name), class_name)
    objects = list[Any]()

    def construct(*args: Any, **kwargs: Any) -> Any:
        objects.append(original_class(*args, **kwargs))
        return objects[-1]

    monkeypatch.setattr(f"{module_name}.{class_name}", construct)
    return objects
