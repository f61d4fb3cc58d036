"""The total of several releases holds for every order, also against an adversary that is searched exhaustively."""

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
# The losses of the adversary's steps are multiples of a step's epsilon divided by this number.
NUM_UNITS = 20


def best_delta(
    kinds_of_steps: tuple[str, ...], step_epsilon: float, target_epsilon: float
) -> float:
    """Returns the largest delta at `target_epsilon` of an adversary who chooses each step after the losses of earlier
    steps.

    A step "pure" is a randomized response with the epsilon `step_epsilon` / 2. In a step "range", the adversary
    chooses where the interval of losses, of length `step_epsilon`, lies around 0.
    """
    unit = step_epsilon / NUM_UNITS

    @cache
    def largest_delta(num_done: int, loss: int) -> float:
        """Returns the largest delta after `num_done` steps whose losses sum to `loss` units of `step_epsilon / 20`."""
        if num_done == len(kinds_of_steps):
            return max(0.0, -math.expm1(target_epsilon - loss * unit))
        if kinds_of_steps[num_done] == "pure":
            half = NUM_UNITS // 2
            prob_of_truth = 1 / (1 + math.exp(-half * unit))
            after_truth = largest_delta(num_done=num_done + 1, loss=loss + half)
            after_lie = largest_delta(num_done=num_done + 1, loss=loss - half)
            return prob_of_truth * after_truth + (1 - prob_of_truth) * after_lie
        best = 0.0
        # The loss of a range is `upper_loss` or `upper_loss - NUM_UNITS` units.
        for upper_loss in range(NUM_UNITS + 1):
            lower_loss = upper_loss - NUM_UNITS
            prob_of_upper = math.expm1(lower_loss * unit) / math.expm1(-step_epsilon)
            after_upper = largest_delta(num_done=num_done + 1, loss=loss + upper_loss)
            after_lower = largest_delta(num_done=num_done + 1, loss=loss + lower_loss)
            best = max(best, prob_of_upper * after_upper + (1 - prob_of_upper) * after_lower)
        return best

    return largest_delta(num_done=0, loss=0)


def test_a_total_bounds_the_strongest_adversary_in_every_order() -> None:
    """The total of two pure-DP events and two bounded-range events bounds the strongest adversary in every order.

    At epsilon 1.824, the largest delta of the adversary over all orders is 0.08103; the total epsilon at this delta
    exceeds 1.824. The exact accountant's epsilon is below 1.824 if the bounded-range events come first.
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
    in_order_of_charges = ExactAccountant().compose_all((event, 1) for event in events)
    epsilon_of_charges = in_order_of_charges.get_epsilon(target_delta=worst)
    assert epsilon_of_charges < epsilon, "negative control: this bound holds for one order only"


@pytest.mark.slow
def test_optimal_composition_depends_on_the_order_of_events() -> None:
    """60 ranges of 0.2 and then 60 pure releases of 0.1 cost an epsilon below 5.369 by the exact accountant.

    Two ledgers with the charges in either order have the same total, above 5.3720, as a total holds for every order.
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
    reverse_order = ExactAccountant().compose(RANGES).compose(PURE)
    epsilon = reverse_order.get_epsilon(target_delta=1e-6)
    assert epsilon < 5.3720 - 3e-3, "negative control: this bound holds for one order only"


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
        ([SESSION, SESSION], [SESSION], True),
        ([ComposedEvent((PURE, RANGES))] * 2, [], True),
        ([ComposedEvent((PURE, RANGES))] * 2, [ComposedEvent((PURE, RANGES))], False),
        ([ComposedEvent((PURE, RANGES))], [ComposedEvent((PURE, RANGES))], True),
    ],
    ids=[
        "Gaussians beside equal events",
        "two different events",
        "one event in parts",
        "sessions of equal steps",
        "equal compositions",
        "equal compositions in parts",
        "one composition in parts",
    ],
)
def test_have_one_order_finds_events_whose_order_is_irrelevant(
    events: list[Event], interleaved: list[Event], expected: bool
) -> None:
    """`have_one_order` returns whether all orders of the events have one price.

    Events in `interleaved` belong to releases whose parts may alternate with those of other
    releases.
    """
    assert (
        have_one_order(count_of_event=Counter(events), interleaved_events=frozenset(interleaved))
        is expected
    )


def commit_part(ledger: Ledger, release_key: str, part_name: str, event: Event) -> None:
    """Commits the part `part_name` of the release `release_key` to the ledger, as a run does."""
    ledger.commit(
        f"{release_key}:{part_name}",
        event,
        content=b"",
        adjacency=ledger.adjacency,
        release_key=release_key,
    )


@pytest.mark.slow
def test_interleaved_parts_are_bounded_in_every_order() -> None:
    """Two equal releases, "a" and then "b", commit their first parts: the total is the auto accountant's.

    A second part of "b" leaves the total as it is. A second part of "a" after it interleaves both releases: the total
    rises to the Renyi accountant's, which holds for every order of the events.
    """
    both = ComposedEvent((PURE, RANGES))
    ledgers = [Ledger(target_delta=1e-6) for _ in range(2)]
    for ledger in ledgers:
        for key in ("a", "b"):
            commit_part(ledger=ledger, release_key=key, part_name="first", event=both)
    epsilon_without_parts = ledgers[0].epsilon
    assert epsilon_without_parts == AutoAccountant().compose(both, count=2).get_epsilon(
        target_delta=1e-6
    )
    commit_part(ledger=ledgers[1], release_key="b", part_name="later", event=both)
    assert ledgers[1].epsilon == epsilon_without_parts, "nothing was released in between"
    commit_part(ledger=ledgers[1], release_key="a", part_name="much later", event=both)
    assert (
        ledgers[1].epsilon
        == RdpAccountant().compose(both, count=2).get_epsilon(target_delta=1e-6)
        > epsilon_without_parts
    )


def test_in_any_order_replaces_only_an_accountant_whose_bound_depends_on_the_order_of_events() -> (
    None
):
    """`in_any_order` returns an accountant unchanged if its bound holds for every order of the events.

    For the exact accountant, whose bound depends on the order, it returns the Renyi accountant. For the auto
    accountant it returns one that has the Renyi accountant's epsilon here.
    """
    makers = (RdpAccountant, PureDpAccountant, JointLawAccountant)
    assert all(in_any_order(make_accountant=maker) is maker for maker in makers)
    assert in_any_order(ExactAccountant) is RdpAccountant
    auto = in_any_order(AutoAccountant)().compose(PURE).compose(RANGES)
    assert auto.get_epsilon(target_delta=1e-6) == RdpAccountant().compose(PURE).compose(
        RANGES
    ).get_epsilon(target_delta=1e-6)


@pytest.mark.slow
def test_releases_in_an_unknown_order_are_bounded_in_every_order() -> None:
    """60 pure releases of 0.1 and then 60 ranges of 0.2 cost an epsilon within 0.003 of 5.3720.

    `total_epsilon` is at least this epsilon for both orders of the events. Gaussians and one pure event cost the same
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
    gaussians_and_pure = [
        GaussianEvent(noise_multiplier=3.0),
        GaussianEvent(noise_multiplier=5.0),
        pure,
    ]
    merged_gaussian = GaussianEvent(noise_multiplier=(1 / 9 + 1 / 25) ** -0.5)
    accountant = ExactAccountant().compose(merged_gaussian).compose(pure)
    expected = accountant.get_epsilon(target_delta=1e-6)
    assert total_epsilon(gaussians_and_pure, target_delta=1e-6) == pytest.approx(expected, rel=1e-9)
