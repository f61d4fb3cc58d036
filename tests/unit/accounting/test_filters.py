"""Privacy filters: what they admit, what they charge, and how they round."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import pytest

from pate import accounting
from pate.accounting.cap import Cap
from pate.accounting.filters import (
    FormerZCdpFilter,
    GaussianAndRenyi,
    GaussianFilter,
    GaussianFirst,
    GaussianOrRenyi,
    PrivacyFilter,
    RenyiFilter,
    Spent,
    default_filter,
    filter_from_json,
)
from pate.aggregators import GaussianVotes
from tests.refusals import ANY, refused_parameter

CAP = 4.0
DELTA = 1e-6
BITS = GaussianVotes(noise_std=40.0).event_for(num_queries=1, num_labels=1, num_teachers=200)
KINDS = (RenyiFilter, GaussianFilter)


def largest_number_at_once(
    event: accounting.Event, make_accountant: Callable[[], accounting.Accountant]
) -> int:
    """Returns the number of equal events that an accountant admits under the cap, if all are fixed beforehand."""
    low = 0
    high = 4096
    while high - low > 1:
        middle = (low + high) // 2
        accountant = make_accountant().compose(event, count=middle)
        if accountant.get_epsilon(target_delta=DELTA) <= CAP:
            low = middle
        else:
            high = middle
    return low


@pytest.mark.parametrize(
    ("event", "num_at_once", "num_one_by_one", "make_accountant", "make_filter"),
    [
        (
            accounting.GaussianEvent(noise_multiplier=30.0),
            559,
            559,
            accounting.RdpAccountant,
            RenyiFilter,
        ),
        (
            accounting.BoundedRangeEvent(epsilon=0.05),
            996,
            996,
            accounting.RdpAccountant,
            RenyiFilter,
        ),
        (accounting.PureDpEvent(epsilon=0.03), 695, 695, accounting.RdpAccountant, RenyiFilter),
        (BITS, 1562, 1561, accounting.RdpAccountant, RenyiFilter),
        (
            accounting.GaussianEvent(noise_multiplier=30.0),
            631,
            631,
            accounting.ExactAccountant,
            GaussianFilter,
        ),
    ],
    ids=["gaussian", "bounded range", "pure dp", "bits", "gaussian by mu"],
)
def test_a_filter_admits_at_most_as_many_releases_as_the_accountant(
    event: accounting.Event,
    num_at_once: int,
    num_one_by_one: int,
    make_accountant: Callable[[], accounting.Accountant],
    make_filter: Callable[..., PrivacyFilter],
) -> None:
    """An accountant's total allows `num_at_once` equal events under the cap if their number is fixed beforehand.

    The filter allows `num_one_by_one` of them, each of which may depend on earlier outcomes: the same number, or one
    fewer.
    """
    assert largest_number_at_once(event=event, make_accountant=make_accountant) == num_at_once
    privacy_filter = make_filter(max_epsilon=CAP, target_delta=DELTA)
    assert privacy_filter.affords(Spent(), event) == num_one_by_one


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_affords_is_the_number_of_events_admitted_one_by_one(kind: type[PrivacyFilter]) -> None:
    """Equal events are charged until the filter admits no further one: their number is `affords` of the empty filter.

    The epsilon of the filter's whole budget is at most the cap, and that of a budget larger by 1e-9
    exceeds it.
    """
    privacy_filter = kind(max_epsilon=1.0, target_delta=DELTA)
    event = accounting.GaussianEvent(noise_multiplier=15.0)
    spent = Spent()
    count = 0
    expected = privacy_filter.affords(Spent(), event)
    while privacy_filter.admits(spent, event):
        assert privacy_filter.affords(spent, event) == expected - count
        spent = spent.plus(privacy_filter.price(event))
        count += 1
    assert count == expected > 5
    assert spent.amount <= privacy_filter.budget < spent.amount + privacy_filter.amount(event)
    assert (
        privacy_filter.epsilon(privacy_filter.budget)
        <= privacy_filter.max_epsilon
        < privacy_filter.epsilon(privacy_filter.budget * (1 + 1e-9))
    )


def test_sums_are_rounded_up_or_exact() -> None:
    """The sum of 1000 equal prices has at least 1000 times their amount.

    The sums of failure probabilities and of pure epsilons are exact fractions.
    """
    spent_on_one_release = Spent(
        amount=0.1, failure_prob=Fraction(1e-9), pure_epsilon=Fraction(0.3)
    )
    spent = Spent()
    for _ in range(1000):
        spent = spent.plus(spent_on_one_release)
    assert spent.amount >= 1000 * 0.1
    assert spent.failure_prob == 1000 * Fraction(1e-9)
    assert spent.plus(spent_on_one_release, num_times=7).pure_epsilon == 1007 * Fraction(0.3)


@pytest.mark.parametrize("kind", [RenyiFilter, GaussianFirst, GaussianOrRenyi])
@pytest.mark.parametrize(
    ("cap", "event_epsilon", "count"),
    [
        (1.0, 0.1, 10),
        (0.3, 0.1, 3),
        (0.3, 0.3 / 3, 3),
        (0.7, 0.1, 7),
        (1.0, 1 / 3, 3),
        (3.0, 0.3, 10),
    ],
)
def test_equal_parts_of_a_cap_fit_exactly(
    kind: type[RenyiFilter], cap: float, event_epsilon: float, count: int
) -> None:
    """Under the cap, `count` pure-DP events of epsilon `event_epsilon` fit exactly, and nothing more does.

    The events fit one by one and as one event. Ten times the float 0.1 exceeds 1 by 6e-17; the filter converts at a
    slightly smaller delta to allow for that.
    """
    event = accounting.PureDpEvent(epsilon=event_epsilon)
    all_events = accounting.SelfComposedEvent(event=event, count=count)
    privacy_filter = kind(max_epsilon=cap, target_delta=1e-9).fixed_by(event)
    assert privacy_filter.affords(Spent(), event) == count
    assert privacy_filter.affords(Spent(), all_events) == 1
    spent = privacy_filter.price(all_events)
    assert not privacy_filter.admits(spent, event=accounting.PureDpEvent(epsilon=1e-12))
    delta_of_slack = (
        privacy_filter.target_delta
        - privacy_filter.failures_allowed
        - privacy_filter.conversion_delta
    )
    assert 2.0**-52 * cap < delta_of_slack < 1e-5 * privacy_filter.target_delta
    assert 1 - math.exp(-float(count * Fraction(event_epsilon) - Fraction(cap))) <= delta_of_slack


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.1, 1.0, 4.0, 30.0, 60.0])
def test_the_mu_of_a_pure_release_is_that_of_a_costlier_gaussian(epsilon: float) -> None:
    """The Gaussian filter gives a pure-DP release the mu of a Gaussian that costs at least as much.

    The delta of this Gaussian is at least that of randomized response at four points of both privacy profiles, in
    mpmath. At the point of epsilon 0, it is larger by a millionth at most.
    """
    with mpmath.workdps(60):
        exact_epsilon = mpmath.mpf(epsilon)
        exp_epsilon = mpmath.exp(exact_epsilon)
        gaussian_filter = GaussianFilter(max_epsilon=CAP, target_delta=DELTA)
        mu = mpmath.sqrt(mpmath.mpf(gaussian_filter.amount(accounting.PureDpEvent(epsilon))))
        for share in (0, 0.3, 0.9, 1):
            loss = share * exact_epsilon
            exp_loss = mpmath.exp(loss)
            delta_of_response = max(mpmath.mpf(0), (exp_epsilon - exp_loss) / (1 + exp_epsilon))
            first_prob = mpmath.ncdf(mu / 2 - loss / mu)
            second_prob = mpmath.ncdf(-mu / 2 - loss / mu)
            assert first_prob - exp_loss * second_prob >= delta_of_response
        distance = (exp_epsilon - 1) / (1 + exp_epsilon)
        gaussian_distance = mpmath.ncdf(mu / 2) - mpmath.ncdf(-mu / 2)
        assert gaussian_distance <= distance * (1 + mpmath.mpf("1e-6"))


def test_a_cap_has_no_slack_at_a_tiny_delta() -> None:
    """At delta 1e-14 nothing is set aside for rounding: nine events of 0.1 fit under a cap of 1, and ten do not.

    The float 0.1 is slightly above a tenth. Failure probabilities are added exactly: seven of 2e-16 fit into 1.4e-15
    one after the other, and an eighth does not.
    """
    privacy_filter = RenyiFilter(max_epsilon=1.0, target_delta=1e-14)
    assert privacy_filter.affords(Spent(), accounting.PureDpEvent(epsilon=0.1)) == 9
    assert (
        privacy_filter.conversion_delta
        == privacy_filter.target_delta - privacy_filter.failures_allowed
    )
    event = accounting.ApproximateEvent(
        event=accounting.GaussianEvent(noise_multiplier=1000.0), failure_prob=2e-16
    )
    privacy_filter = RenyiFilter(max_epsilon=CAP, target_delta=1e-14, max_failure_prob=1.4e-15)
    spent = Spent()
    sum_in_floats = 0.0
    for _ in range(7):
        assert privacy_filter.admits(spent, event)
        spent = spent.plus(privacy_filter.price(event))
        sum_in_floats += 2e-16
    assert not privacy_filter.admits(spent, event)
    assert sum_in_floats > 1.4e-15, "a sum of floats would be refused"


def test_a_filter_never_splits_events_between_two_bounds() -> None:
    """A filter admits an event if the sum of all pure epsilons stays within the cap, or the Renyi divergence within
    its budget.

    One of both bounds must hold for all events together. So pure events that were admitted by the sum also use up the
    divergence, and after Gaussians a pure event cannot be admitted by the sum.
    """
    privacy_filter = RenyiFilter(max_epsilon=0.3, target_delta=DELTA)
    pure = accounting.PureDpEvent(epsilon=0.1)
    spent_on_pure = privacy_filter.price(accounting.SelfComposedEvent(event=pure, count=2))
    gaussian = accounting.GaussianEvent(noise_multiplier=30.0)
    num_gaussians = int(privacy_filter.affords(Spent(), gaussian))
    gaussians = accounting.SelfComposedEvent(event=gaussian, count=num_gaussians)
    assert privacy_filter.admits(spent_on_pure, event=pure)
    assert privacy_filter.admits(Spent(), event=gaussians)
    assert not privacy_filter.admits(spent_on_pure, event=gaussians)
    assert not privacy_filter.admits(privacy_filter.price(gaussians), event=pure)


def charges_and_cap_at_refusal(
    cap: float, events: list[accounting.Event], *, accountant: Callable[[], accounting.Accountant]
) -> tuple[int, float] | None:
    """Returns two numbers for a ledger with a cap that refuses one of the events; None if the ledger admits all events.

    The first number counts the events that the ledger admits before the refusal. The second number is the smallest
    sufficient cap, which the refusal names.
    """
    ledger = accounting.Ledger(target_delta=DELTA, max_epsilon=cap, accountant=accountant)
    for num_admitted, event in enumerate(events):
        try:
            ledger.charge(event, adjacency=ledger.adjacency, key=str(num_admitted))
        except accounting.BudgetExceeded as error:
            return num_admitted, float(str(error).partition("at least ")[2].partition(",")[0])
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_accountant", "cap"),
    [
        (accounting.RdpAccountant, 0.01),
        (accounting.RdpAccountant, 0.9),
        (accounting.AutoAccountant, 0.9),
    ],
)
@pytest.mark.parametrize(
    "events",
    [
        [accounting.PureDpEvent(epsilon=0.1)] * 10,
        [accounting.PureDpEvent(epsilon=1 / 3)] * 3,
        [accounting.PureDpEvent(epsilon=0.3)] * 9,
        [accounting.BoundedRangeEvent(epsilon=0.2)] * 7,
        [
            accounting.PureDpEvent(epsilon=0.05),
            accounting.GaussianEvent(noise_multiplier=9.0),
            accounting.PureDpEvent(epsilon=0.7),
        ],
        [accounting.GaussianEvent(noise_multiplier=3.0)] * 3,
        [accounting.GaussianEvent(noise_multiplier=4.0), accounting.PureDpEvent(epsilon=0.5)],
        [accounting.ApproximateEvent(event=accounting.ZCdpEvent(rho=0.03), failure_prob=1e-8)] * 3,
    ],
    ids=lambda events: f"{len(events)} {type(events[0]).__name__}",
)
def test_the_cap_that_a_refusal_names_admits_the_refused_event(
    make_accountant: Any, events: list[accounting.Event], cap: float
) -> None:
    """A ledger with a cap refuses an event, and its error names a larger cap.

    A ledger with the named cap admits the event; a cap 0.01% smaller does not.
    """
    while (
        refusal := charges_and_cap_at_refusal(cap=cap, events=events, accountant=make_accountant)
    ) is not None:
        num_admitted, named_cap = refusal
        assert named_cap > cap
        assert (
            charges_and_cap_at_refusal(
                cap=named_cap, events=events[: num_admitted + 1], accountant=make_accountant
            )
            is None
        )
        refusal_of_smaller_cap = charges_and_cap_at_refusal(
            cap=max(cap, named_cap * (1 - 1e-4)),
            events=events[: num_admitted + 1],
            accountant=make_accountant,
        )
        assert refusal_of_smaller_cap is not None, "the named cap is the smallest"
        cap = named_cap


def test_failures_are_admitted_up_to_a_fixed_part_of_delta() -> None:
    """A filter allows failure probabilities up to `max_failure_prob`, and converts at the rest of delta.

    Without this setting, the first event fixes the allowed failure probability, and later events do
    not change it.
    """
    event = accounting.ApproximateEvent(
        event=accounting.GaussianEvent(noise_multiplier=100.0), failure_prob=1e-8
    )
    privacy_filter = RenyiFilter(max_epsilon=CAP, target_delta=DELTA, max_failure_prob=1e-7)
    assert privacy_filter.affords(Spent(), event) in (9, 10)
    assert privacy_filter.conversion_delta == pytest.approx(9e-7)
    assert privacy_filter.affords(Spent(), accounting.GaussianEvent(noise_multiplier=30.0)) < 559
    largest = accounting.ApproximateEvent(event=event, failure_prob=6e-7)
    for first_event, allowed in (
        (accounting.GaussianEvent(noise_multiplier=1.0), 1e-8),
        (event, 5.05e-7),
        (largest, 8.05e-7),
    ):
        for kind in (RenyiFilter, GaussianFirst, GaussianOrRenyi):
            fixed_filter = kind(max_epsilon=CAP, target_delta=DELTA).fixed_by(first_event)
            is_gaussian = first_event == accounting.GaussianEvent(noise_multiplier=1.0)
            has_no_failures = isinstance(fixed_filter, GaussianFilter) and is_gaussian
            expected = 0.0 if has_no_failures else allowed
            assert fixed_filter.failures_allowed == pytest.approx(expected)
            assert fixed_filter.fixed_by(event) == fixed_filter


def test_a_filter_without_a_price_of_hits_counts_accesses() -> None:
    """The Gaussian filter prices a session as the composition of its accesses (uses of the private data).

    With `max_failure_prob`, it has room for two sessions; the failure probabilities of three exceed that limit. Without
    it, the filter admits no session.
    """
    accesses = accounting.ApproximateEvent(
        event=accounting.SelfComposedEvent(event=accounting.PureDpEvent(epsilon=0.01), count=30),
        failure_prob=4e-8,
    )
    session = accounting.SessionEvent(
        epsilon=0.01, hit_prob=0.4, target_hits=3, num_calls=1000, accesses=accesses
    )
    privacy_filter = GaussianFilter(max_epsilon=CAP, target_delta=DELTA, max_failure_prob=1e-7)
    assert privacy_filter.price(session) == privacy_filter.price(accesses)
    assert privacy_filter.affords(Spent(), session) == 2  # a third one might overrun too often
    assert not GaussianFilter(max_epsilon=CAP, target_delta=DELTA).admits(Spent(), event=session)


def test_the_first_charge_determines_the_filter_of_a_ledger() -> None:
    """A ledger's first event fixes the failure probability that its filter allows.

    The filter allows more if the first event itself can fail. A later event with a larger failure probability is
    refused.
    """
    failing_event = accounting.ApproximateEvent(
        event=accounting.GaussianEvent(noise_multiplier=50.0), failure_prob=1e-9
    )
    ledger = accounting.Ledger(target_delta=DELTA, max_epsilon=CAP)
    second_ledger = accounting.Ledger(target_delta=DELTA, max_epsilon=CAP)
    for number in range(2):
        ledger.charge(failing_event, adjacency=ledger.adjacency, key=str(number))
        second_ledger.charge(
            accounting.GaussianEvent(noise_multiplier=50.0),
            adjacency=second_ledger.adjacency,
            key=str(number),
        )
    with refused_parameter(
        "max_epsilon",
        value=4.0,
        rule_words="failures take at most 1e-08 of target_delta=1e-06, not 2e-08",
        kind=accounting.BudgetExceeded,
    ):
        second_ledger.charge(
            accounting.ApproximateEvent(
                event=accounting.GaussianEvent(noise_multiplier=50.0), failure_prob=2e-8
            ),
            adjacency=second_ledger.adjacency,
            key="fails",
        )
    assert ledger.filter is not None and second_ledger.filter is not None
    assert ledger.filter.failures_allowed == pytest.approx((1e-9 + DELTA) / 2)
    assert second_ledger.filter.failures_allowed == pytest.approx(1e-8)


def test_the_filter_refuses_a_charge_below_the_total() -> None:
    """A ledger with a cap of 4 refuses an event although the Renyi accountant's total with this event is at most 4.

    The filter has one fixed Renyi order, and the accountant's total takes the best of many.
    """
    ledger = accounting.Ledger(target_delta=1e-2, max_epsilon=4.0)
    events = [accounting.PureDpEvent(epsilon=3.0), *[accounting.PureDpEvent(epsilon=0.23)] * 20]
    with refused_parameter(
        "max_epsilon",
        value=4.0,
        rule_words="total with this release",
        kind=accounting.BudgetExceeded,
    ):
        for number, event in enumerate(events):
            ledger.charge(event, adjacency=ledger.adjacency, key=str(number))
    charged_events = [entry.event for entry in ledger.entries]
    accountant = accounting.RdpAccountant().compose_all((event, 1) for event in charged_events)
    accountant.compose(accounting.PureDpEvent(epsilon=0.23))
    assert accountant.get_epsilon(target_delta=1e-2) <= 4.0


@pytest.mark.parametrize(
    "make_accountant",
    [accounting.ExactAccountant, accounting.PldAccountant, accounting.PureDpAccountant],
)
def test_the_accountant_decides_for_the_first_release_only(
    make_accountant: Callable[[], accounting.Accountant],
) -> None:
    """A ledger admits a first charge that uses the whole cap by its accountant's epsilon, and then nothing more.

    The Renyi filter alone would refuse this charge.
    """
    event = accounting.SelfComposedEvent(event=accounting.PureDpEvent(epsilon=0.1), count=100)
    total = make_accountant().compose(event).get_epsilon(target_delta=DELTA)
    assert not RenyiFilter(max_epsilon=total, target_delta=DELTA).admits(Spent(), event)
    ledger = accounting.Ledger(target_delta=DELTA, accountant=make_accountant, max_epsilon=total)
    assert ledger.affords(event) == 1
    ledger.charge(event, adjacency=ledger.adjacency, key="first")
    assert ledger.left == 0
    for small_event in (accounting.PureDpEvent(epsilon=1e-9), accounting.NoOpEvent()):
        assert ledger.affords(small_event) == 0
        with refused_parameter("max_epsilon", value=ANY, kind=accounting.BudgetExceeded):
            ledger.charge(small_event, adjacency=ledger.adjacency, key="second")


@pytest.mark.parametrize(
    ("make_accountant", "first_event", "name"),
    [
        (accounting.RdpAccountant, accounting.GaussianEvent(noise_multiplier=30.0), "renyi"),
        (accounting.PureDpAccountant, accounting.PureDpEvent(epsilon=0.1), "renyi"),
        (
            accounting.ExactAccountant,
            accounting.SelfComposedEvent(
                event=accounting.GaussianEvent(noise_multiplier=30.0), count=3
            ),
            "gaussian_and_renyi",
        ),
        (
            accounting.ExactAccountant,
            accounting.ComposedEvent(
                (
                    accounting.GaussianEvent(noise_multiplier=30.0),
                    accounting.PureDpEvent(epsilon=0.1),
                )
            ),
            "renyi",
        ),
        (
            accounting.PldAccountant,
            accounting.GaussianEvent(noise_multiplier=30.0),
            "gaussian_and_renyi",
        ),
    ],
)
def test_the_accountant_determines_the_default_filter(
    make_accountant: Callable[[], accounting.Accountant], first_event: accounting.Event, name: str
) -> None:
    """The default filter for the accountant `make_accountant` has the name `name` once `first_event` has fixed it."""
    make_filter = default_filter(accountant=make_accountant())
    assert make_filter(CAP, DELTA).fixed_by(first_event).name == name


@pytest.mark.parametrize(
    ("name", "make_filter"),
    [
        ("max_epsilon", partial(RenyiFilter, max_epsilon=0.0, target_delta=DELTA)),
        ("target_delta", partial(RenyiFilter, max_epsilon=CAP, target_delta=1.0)),
        (
            "max_failure_prob",
            partial(RenyiFilter, max_epsilon=CAP, target_delta=DELTA, max_failure_prob=DELTA),
        ),
        (
            "max_failure_prob",
            partial(GaussianFilter, max_epsilon=CAP, target_delta=DELTA, max_failure_prob=-1.0),
        ),
        ("order", partial(RenyiFilter, max_epsilon=CAP, target_delta=DELTA, order=1.0)),
        ("order", partial(RenyiFilter, max_epsilon=CAP, target_delta=DELTA, order=2.0)),
        (
            "filter",
            partial(
                filter_from_json, filter_json={"name": "none"}, max_epsilon=CAP, target_delta=DELTA
            ),
        ),
        (
            "filter",
            partial(
                filter_from_json,
                filter_json={"name": "gaussian", "order": 2},
                max_epsilon=CAP,
                target_delta=DELTA,
            ),
        ),
    ],
    ids=[
        "cap of 0",
        "delta of 1",
        "all of delta for failures",
        "negative failure probability",
        "order 1",
        "order too small for the cap",
        "unknown name",
        "unknown parameter",
    ],
)
def test_an_invalid_filter_is_refused(name: str, make_filter: Callable[[], PrivacyFilter]) -> None:
    """`make_filter` has one invalid parameter; the error is about the parameter `name`."""
    with refused_parameter(name, value=ANY):
        make_filter()


@pytest.mark.parametrize(
    "make_filter", [RenyiFilter, GaussianFilter, GaussianAndRenyi, GaussianFirst, GaussianOrRenyi]
)
def test_a_file_names_each_filter_that_a_new_ledger_may_have(
    tmp_path: Path, make_filter: Callable[[float, float], PrivacyFilter]
) -> None:
    """The file of a ledger with `make_filter` opens again, by its path alone and with the filter named once more.

    The ledger that is opened again has the same filter, and admits as many further events.
    """
    file = tmp_path / "ledger.db"
    settings = {"target_delta": DELTA, "max_epsilon": CAP, "filter": make_filter}
    ledger = accounting.Ledger(file, **settings)
    event = accounting.GaussianEvent(noise_multiplier=2.0)
    ledger.charge(event, adjacency=ledger.adjacency)
    assert ledger.affords(event) > 0
    for reopened in (accounting.Ledger.stored(file), accounting.Ledger(file, **settings)):
        assert reopened.filter == ledger.filter
        assert reopened.affords(event) == ledger.affords(event)


class UnnamedFilter(RenyiFilter):
    """A user's filter with the name of its base class, which the file of a ledger cannot tell from it."""


class OwnFilter(RenyiFilter):
    """A user's filter with a name of its own, which no file of a ledger may name."""

    name = "own"


@pytest.mark.parametrize(
    ("own_filter", "refused_name"), [(UnnamedFilter, "UnnamedFilter"), (OwnFilter, "own")]
)
def test_a_new_file_is_not_written_for_a_filter_that_it_cannot_name(
    tmp_path: Path, own_filter: Callable[[float, float], PrivacyFilter], refused_name: str
) -> None:
    """A new ledger with a user's filter is refused, and no file is left behind.

    A user's filter may enforce a smaller cap than that of an existing file.
    """
    file = tmp_path / "ledger.db"
    for path in (file, None):
        with refused_parameter("filter", value=refused_name):
            accounting.Ledger(path, target_delta=DELTA, max_epsilon=CAP, filter=own_filter)
    assert not file.exists()
    accounting.Ledger(file, target_delta=DELTA, max_epsilon=CAP)
    ledger = accounting.Ledger(file, target_delta=DELTA, max_epsilon=CAP / 2, filter=own_filter)
    assert ledger.max_epsilon == CAP / 2


def test_the_gaussian_filter_refuses_an_event_without_a_mu() -> None:
    """The Gaussian filter has no mu for a zCDP event, and refuses this event."""
    with refused_parameter("event", value=ANY):
        GaussianFilter(max_epsilon=CAP, target_delta=DELTA).amount(accounting.ZCdpEvent(rho=0.1))


@pytest.mark.slow
def test_other_events_may_follow_gaussians_at_small_cost() -> None:
    """Under its cap, the default ledger admits 598 equal Gaussians; by Renyi divergence alone it would admit 559.

    By mu at the whole delta, 631 would fit. After a Gaussian charge, four other kinds of event are still
    admitted; the filter of earlier ledgers refuses the zCDP event among them.
    """
    ledger = accounting.Ledger(
        target_delta=DELTA, accountant=accounting.AutoAccountant, max_epsilon=CAP
    )
    assert ledger.affords(accounting.GaussianEvent(noise_multiplier=30.0)) == 598
    ledger.charge(accounting.GaussianEvent(noise_multiplier=3.0), adjacency=ledger.adjacency)
    for event in (
        BITS,
        accounting.BoundedRangeEvent(epsilon=0.1),
        accounting.ZCdpEvent(rho=0.01),
        accounting.ApproximateEvent(event=accounting.PureDpEvent(epsilon=0.1), failure_prob=1e-9),
    ):
        assert ledger.affords(event) > 0
        ledger.charge(event, adjacency=ledger.adjacency)
    filter_of_earlier_ledgers = GaussianOrRenyi(max_epsilon=CAP, target_delta=DELTA).fixed_by(
        accounting.GaussianEvent(noise_multiplier=3.0)
    )
    with refused_parameter("event", value="ZCdpEvent", rule_words="Gaussian or"):
        filter_of_earlier_ledgers.affords(Spent(), accounting.ZCdpEvent(rho=0.01))


@pytest.mark.slow
def test_two_units_never_split_the_events_between_them() -> None:
    """A filter with two bounds admits an event if all events together keep within one of them.

    The bounds are those of mu and of the Renyi divergence. After 590 Gaussians the divergence is used up, and room by
    mu is left: a further Gaussian is admitted, and a zCDP event, for which the filter has no mu, is refused.
    """
    privacy_filter = GaussianAndRenyi(max_epsilon=CAP, target_delta=DELTA)
    spent_on_gaussians = privacy_filter.price(
        accounting.SelfComposedEvent(
            event=accounting.GaussianEvent(noise_multiplier=30.0), count=590
        )
    )
    assert privacy_filter.admits(
        spent_on_gaussians, event=accounting.GaussianEvent(noise_multiplier=30.0)
    )
    assert privacy_filter.epsilon(spent_on_gaussians.amount) > CAP, (
        "the Renyi divergence is used up"
    )
    assert not privacy_filter.admits(spent_on_gaussians, event=accounting.ZCdpEvent(rho=1e-6)), (
        "the filter has no mu for it"
    )
    assert privacy_filter.left(spent_on_gaussians) == pytest.approx(
        privacy_filter.gaussian_budget - 590 / 900
    )


def test_a_session_with_an_overrun_has_an_infinite_mu() -> None:
    """A session that may use the data more often than is priced, with probability 0.9 delta, has an infinite mu.

    The session is refused. With a finite mu, four such sessions would be admitted; their failure probabilities sum to
    3.6 times delta.
    """
    privacy_filter = GaussianAndRenyi(max_epsilon=CAP, target_delta=DELTA)
    access = accounting.SelfComposedEvent(event=accounting.PureDpEvent(epsilon=0.3), count=1)
    make_session = partial(
        accounting.SessionEvent, epsilon=0.3, hit_prob=0.01, target_hits=1, num_calls=100
    )
    session_that_may_overrun = make_session(
        accesses=accounting.ApproximateEvent(event=access, failure_prob=0.9 * DELTA)
    )
    assert privacy_filter.price(session_that_may_overrun).second_amount == math.inf
    assert privacy_filter.affords(Spent(), session_that_may_overrun) == 0
    assert (
        privacy_filter.price(make_session(accesses=access)).second_amount
        == privacy_filter.price(access).second_amount
        < math.inf
    )


def test_a_stored_filter_admits_the_failures_of_its_version() -> None:
    """A filter that is read from an earlier version's file allows failures up to half of delta.

    If the first event has a larger failure probability, the filter allows that one.
    """
    stored_filter = filter_from_json(
        filter_json={"name": "renyi", "max_failure_prob": None, "order": 8.0},
        max_epsilon=CAP,
        target_delta=DELTA,
    )
    assert (
        stored_filter.fixed_by(
            accounting.ApproximateEvent(
                event=accounting.GaussianEvent(noise_multiplier=9.0), failure_prob=1e-8
            )
        ).failures_allowed
        == DELTA / 2
    )
    assert (
        stored_filter.fixed_by(
            accounting.ApproximateEvent(
                event=accounting.GaussianEvent(noise_multiplier=9.0), failure_prob=6e-7
            )
        ).failures_allowed
        == 6e-7
    )
    ledger = accounting.Ledger(
        target_delta=DELTA,
        max_epsilon=CAP,
        filter=partial(RenyiFilter, order=8.0, plans_failures=False),
    )
    assert ledger.affords(accounting.GaussianEvent(noise_multiplier=30.0)) > 0


def test_the_former_zcdp_filter_admits_only_pure_dp() -> None:
    """The former zCDP filter with a cap of epsilon 4 admits four pure-DP events of epsilon 1, and no Gaussian.

    The filter admits events only while all are pure DP and their epsilons sum to at most the cap. After a Gaussian
    charge of an earlier version, it admits no event at all.
    """
    zcdp_filter = filter_from_json(
        filter_json={"name": "zcdp", "max_failure_prob": None}, max_epsilon=CAP, target_delta=DELTA
    ).fixed_by(accounting.PureDpEvent(epsilon=1.0))
    assert isinstance(zcdp_filter, FormerZCdpFilter)
    assert zcdp_filter.affords(Spent(), accounting.PureDpEvent(epsilon=1.0)) == 4
    assert zcdp_filter.affords(Spent(), accounting.GaussianEvent(noise_multiplier=1000.0)) == 0
    after_gaussian = Spent().plus(
        zcdp_filter.price(accounting.GaussianEvent(noise_multiplier=1000.0))
    )
    assert zcdp_filter.left(after_gaussian) == 0
    assert not zcdp_filter.admits(after_gaussian, event=accounting.PureDpEvent(epsilon=1e-9))
    assert not zcdp_filter.admits(after_gaussian, event=accounting.NoOpEvent())


def test_a_cap_in_rho_names_another_ledger_as_the_way_out() -> None:
    """The former zCDP filter refuses a Gaussian, and its error advises another ledger for new releases."""
    cap = Cap(initial_filter=FormerZCdpFilter(max_epsilon=CAP, target_delta=DELTA), entries=[])
    cap.require_room(accounting.PureDpEvent(epsilon=1.0), epsilon_if_first=math.inf)
    with refused_parameter("max_epsilon", value=CAP, rule_words="another ledger for new releases"):
        cap.require_room(accounting.GaussianEvent(noise_multiplier=1.0), epsilon_if_first=math.inf)
