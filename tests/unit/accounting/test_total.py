"""The total of several releases holds for every order: against the best play, found by trying all of it."""

import itertools
import math
from collections import Counter
from functools import cache

import pytest

from pate.accounting import (
    AutoAccountant,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    JointLawAccountant,
    Ledger,
    PureDpAccountant,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
    SessionEvent,
)
from pate.accounting.total import have_one_order, in_any_order, total_epsilon

PURE = SelfComposedEvent(event=PureDpEvent(epsilon=0.1), count=60)
RANGES = SelfComposedEvent(event=BoundedRangeEvent(epsilon=0.2), count=60)
UNITS = 20  # of which the shifts of a bounded range are multiples


def best_delta(
    kinds_of_steps: tuple[str, ...], step_epsilon: float, target_epsilon: float
) -> float:
    """Returns the largest delta at `target_epsilon` of an adversary who chooses each step after the losses of earlier
    steps.

    A step "pure" is a randomized response with the epsilon `step_epsilon` / 2. In a step "range", the adversary
    chooses where the interval of losses, of length `step_epsilon`, lies around 0.
    """
    unit = step_epsilon / UNITS

    @cache
    def value(number: int, loss: int) -> float:
        if number == len(kinds_of_steps):
            return max(0.0, -math.expm1(target_epsilon - loss * unit))
        if kinds_of_steps[number] == "pure":
            half = UNITS // 2
            true = 1 / (1 + math.exp(-half * unit))
            return true * value(number + 1, loss + half) + (1 - true) * value(
                number + 1, loss - half
            )
        best = 0.0
        for shift in range(UNITS + 1):  # a loss of `shift`, or of `shift - UNITS`
            higher = math.expm1((shift - UNITS) * unit) / math.expm1(-step_epsilon)
            after = higher * value(number + 1, loss + shift) + (1 - higher) * value(
                number + 1, loss + shift - UNITS
            )
            best = max(best, after)
        return best

    return value(0, 0)


def test_a_total_bounds_the_strongest_adversary_in_every_order() -> None:
    """Two pure events and two ranges are released in any order; the delta of the strongest adversary is computed at
    epsilon 1.824.

    Its largest value over all orders of the events is 0.08103. The total epsilon at this delta exceeds 1.824. The
    exact accountant's epsilon for ranges first is smaller than 1.824.
    """
    epsilon = 1.824
    orders = set(itertools.permutations(("pure", "pure", "range", "range")))
    deltas = {
        order: best_delta(kinds_of_steps=order, step_epsilon=1.2, target_epsilon=epsilon)
        for order in orders
    }
    worst = max(deltas.values())
    assert worst == deltas["pure", "pure", "range", "range"] == pytest.approx(0.08103, abs=1e-5)
    events = [
        BoundedRangeEvent(epsilon=1.2),
        BoundedRangeEvent(epsilon=1.2),
        PureDpEvent(epsilon=0.6),
        PureDpEvent(epsilon=0.6),
    ]
    assert total_epsilon(events, target_delta=worst) > epsilon
    by_charges = (
        ExactAccountant()
        .compose_all((event, 1) for event in events)
        .get_epsilon(target_delta=worst)
    )
    assert by_charges < epsilon, "a control: the order of the charges bounds itself alone"


@pytest.mark.slow
def test_optimal_composition_depends_on_the_order_of_events() -> None:
    """60 pure releases of 0.1 and then 60 ranges of 0.2 cost epsilon 5.3720; in the reverse order
    of the events they cost 5.3645.

    Two ledgers with the charges in either order both have a total above 5.3720.
    """
    ledgers = [Ledger(target_delta=1e-6) for _ in range(2)]
    for ledger, order in zip(ledgers, ((PURE, RANGES), (RANGES, PURE)), strict=True):
        for number, event in enumerate(order):
            ledger.charge(event, adjacency="replace_one", key=str(number))
    assert (
        ledgers[0].epsilon
        == ledgers[1].epsilon
        == total_epsilon([PURE, RANGES], target_delta=1e-6)
        > 5.3720
    )
    by_charges = ExactAccountant().compose(RANGES).compose(PURE).get_epsilon(target_delta=1e-6)
    assert by_charges < 5.3720 - 3e-3, "a control"


SESSION = SessionEvent(
    epsilon=0.1,
    hit_prob=0.4,
    target_hits=3,
    num_calls=100,
    accesses=SelfComposedEvent(event=PureDpEvent(epsilon=0.1), count=30),
)


@pytest.mark.parametrize(
    ("events", "interleaved", "expected"),
    [
        (
            [PURE, PURE, GaussianEvent(noise_multiplier=2.0), GaussianEvent(noise_multiplier=3.0)],
            [],
            True,
        ),
        ([PURE, RANGES], [], False),
        ([PURE], [PURE], True),
        ([SESSION, SESSION], [SESSION], True),  # steps that are all equal
        ([ComposedEvent((PURE, RANGES))] * 2, [], True),
        ([ComposedEvent((PURE, RANGES))] * 2, [ComposedEvent((PURE, RANGES))], False),
        # it has its own order
        ([ComposedEvent((PURE, RANGES))], [ComposedEvent((PURE, RANGES))], True),
    ],
)
def test_have_one_order_finds_events_whose_order_is_irrelevant(
    events: list[Event], interleaved: list[Event], expected: bool
) -> None:
    """`have_one_order` returns whether all orders of the events have one price.

    Events in `interleaved` belong to releases whose parts may alternate with those of other
    releases.
    """
    assert have_one_order(counts=Counter(events), interleaved=frozenset(interleaved)) is expected


def commit_part(ledger: Ledger, release_key: str, part_name: str, event: Event) -> None:
    """Commits the part `part_name` of the release `release_key` to the ledger, as a run does."""
    ledger.commit(
        f"{release_key}:{part_name}",
        event,
        b"",
        adjacency=ledger.adjacency,
        release_key=release_key,
    )


@pytest.mark.slow
def test_interleaved_parts_are_bounded_in_every_order() -> None:
    """Two equal releases, "a" and then "b", commit their first parts: the total is the auto accountant's.

    A second part of "b", after which nothing else was released, leaves the total as it is. A second part of "a"
    interleaves both releases: the total rises to the Renyi accountant's, which holds for every order of the events.
    """
    both = ComposedEvent((PURE, RANGES))
    ledgers = [Ledger(target_delta=1e-6) for _ in range(2)]
    for ledger in ledgers:
        for key in ("a", "b"):
            commit_part(ledger=ledger, release_key=key, part_name="first", event=both)
    atomic = ledgers[0].epsilon
    assert atomic == AutoAccountant().compose(both, count=2).get_epsilon(target_delta=1e-6)
    commit_part(ledger=ledgers[1], release_key="b", part_name="later", event=both)
    assert ledgers[1].epsilon == atomic, "before anything else"
    commit_part(ledger=ledgers[1], release_key="a", part_name="much later", event=both)
    assert (
        ledgers[1].epsilon
        == RdpAccountant().compose(both, count=2).get_epsilon(target_delta=1e-6)
        > atomic
    )


def test_in_any_order_replaces_only_an_accountant_whose_bound_depends_on_the_order_of_events() -> (
    None
):
    """`in_any_order` returns an accountant unchanged if its bound holds for every order of the events.

    For the exact accountant, whose bound depends on the order, it returns the Renyi accountant. For the auto
    accountant it returns one that has the Renyi accountant's epsilon here.
    """
    makers = (RdpAccountant, PureDpAccountant, JointLawAccountant)
    assert all(in_any_order(accountant=maker) is maker for maker in makers)
    assert in_any_order(ExactAccountant) is RdpAccountant
    auto = in_any_order(AutoAccountant)().compose(PURE).compose(RANGES)
    assert auto.get_epsilon(target_delta=1e-6) == RdpAccountant().compose(PURE).compose(
        RANGES
    ).get_epsilon(target_delta=1e-6)


@pytest.mark.slow
def test_releases_in_an_unknown_order_are_bounded_in_every_order() -> None:
    """60 pure releases of 0.1 and then 60 ranges of 0.2 cost epsilon 5.3720, more than in the
    reverse order of the events.

    `total_epsilon` is at least 5.3720 for both orders. Gaussians and one pure event cost the same
    in every order, and their total is this price.
    """
    pure = SelfComposedEvent(event=PureDpEvent(epsilon=0.1), count=60)
    ranges = SelfComposedEvent(event=BoundedRangeEvent(epsilon=0.2), count=60)
    worst = ExactAccountant().compose(pure).compose(ranges).get_epsilon(target_delta=1e-6)
    assert worst == pytest.approx(5.3720, abs=3e-3)
    assert (
        total_epsilon([pure, ranges], target_delta=1e-6)
        == total_epsilon([ranges, pure], target_delta=1e-6)
        >= worst
    )
    gaussians = [GaussianEvent(noise_multiplier=3.0), GaussianEvent(noise_multiplier=5.0), pure]
    spent = (
        ExactAccountant()
        .compose(GaussianEvent(noise_multiplier=(1 / 9 + 1 / 25) ** -0.5))
        .compose(pure)
        .get_epsilon(target_delta=1e-6)
    )
    assert total_epsilon(gaussians, target_delta=1e-6) == pytest.approx(spent, rel=1e-9), (
        "Gaussians have one figure in every order"
    )
