"""The default accountant: the smallest bound of several accountants that are quick for the given events."""

from collections import Counter
from operator import attrgetter
from typing import NamedTuple, Self

from pate.accounting import event_json, event_tree, events
from pate.accounting.accountant import Accountant
from pate.accounting.events import Event, SelectThenTestEvent
from pate.accounting.exact import ExactAccountant
from pate.accounting.joint_law import (
    LARGEST_NUM_TEACHERS,
    JointLawAccountant,
    count_select_then_tests,
)
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.accounting.tuning import TuningAccountant
from pate.validation import require_probability

# The events that optimal composition cannot price, or for which its bound is not the smallest.
_NOT_COMPOSABLE = (
    events.ZCdpEvent,
    events.SmoothSensitivityEvent,
    events.SessionEvent,
    events.TuningEvent,
)
_COMPOSABLE = {
    kind for kind in event_json.EVENT_KINDS.values() if not issubclass(kind, _NOT_COMPOSABLE)
}
# `ExactAccountant` is used for at most so many different events, so many releases, and this much of its `work`, which
# takes some seconds.
_LARGEST_NUM_EVENTS = 64
_LARGEST_NUM_STEPS = 200_000
_LARGEST_WORK = 3000
# `JointLawAccountant` is used for at most so many different selections with their tests, and where the number of
# teachers is at most so many times the scale of the selection's noise. With more teachers it saves little.
_LARGEST_NUM_JOINT_LAWS = 2
_LARGEST_NUM_SCALES = 60.0


class _SmallestEpsilon(NamedTuple):
    """The smallest epsilon of several accountants, with the accountant that computed it."""

    epsilon: float
    accountant: Accountant


class AutoAccountant(AccountantBesideRenyi):
    """The default accountant: it returns the smallest epsilon or delta of all accountants that suit the events.

    * `RdpAccountant` always.
    * `ExactAccountant` (optimal composition), where it can price every event within some seconds. A stable top-k with
      an optimal table of its stability test takes longer for more than 375 queries.
    * `JointLawAccountant`, where one or two different events select and test gaps (`SelectThenTestEvent`), and the
      number of teachers is at most 20,000, and at most 60 times the scale, in votes, of the selection's noise.
    * `TuningAccountant`, where the only event is one tuned release (`TuningEvent`).

    The bound of each accountant holds for all composed events, so the smallest bound holds too. `winner` names the
    accountant with the smallest epsilon. The bounds hold if the prices were fixed before the first release. They do not
    depend on installed extras.

    Args:
        any_event_order: True returns bounds that hold for every order of the events. `ExactAccountant` is then used
            only if one of the events is a noisy maximum (`NoisyMaxGaussianEvent`).

    >>> from pate.accounting import BoundedRangeEvent
    >>> spent = AutoAccountant().compose(BoundedRangeEvent(0.1), 20)
    >>> round(spent.get_epsilon(1e-6), 2), spent.winner(1e-6)
    (0.93, 'exact')
    """

    name = "auto"

    def __init__(self, *, any_event_order: bool = False) -> None:
        super().__init__()
        self.any_event_order = any_event_order
        self._counted_events: list[tuple[Event, int]] = []
        # the accountants of which the smallest bound is taken; None until the first bound is computed
        self._accountants: list[Accountant] | None = None
        self._smallest_by_delta: dict[float, _SmallestEpsilon] = {}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, and returns this accountant."""
        self._rdp.compose(event, count=count)
        self.failure_prob = self._rdp.failure_prob
        self._counted_events.append((event, count))
        self._accountants = None
        self._smallest_by_delta.clear()
        return self

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the smallest epsilon, at `target_delta`, of all accountants that are used for these events."""
        return self._smallest_of_accountants(target_delta).epsilon

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the smallest delta, at `target_epsilon`, of all accountants that are used for these events."""
        accountants = self._chosen_accountants()
        return min(accountant.get_delta(target_epsilon) for accountant in accountants)

    def winner(self, target_delta: float) -> str:
        """Returns the name of the accountant with the smallest epsilon at `target_delta`, such as `exact`."""
        return self._smallest_of_accountants(target_delta).accountant.name

    def resolution(self, target_delta: float) -> float:
        """Returns the relative numerical error of the epsilon at `target_delta` (`Accountant.resolution`)."""
        return self._smallest_of_accountants(target_delta).accountant.resolution(target_delta)

    def _quick_delta(self, epsilon: float) -> float:
        return min(accountant._quick_delta(epsilon) for accountant in self._chosen_accountants())

    def _largest_useful_epsilon(self, negligible_delta: float) -> float:
        return self._rdp._largest_useful_epsilon(negligible_delta=negligible_delta)

    def _smallest_of_accountants(self, target_delta: float) -> _SmallestEpsilon:
        """Returns the smallest epsilon at `target_delta`, with the accountant that computed it.

        Of several accountants with this epsilon, the first in the order of their use is returned.
        """
        require_probability("target_delta", target_delta)
        if target_delta not in self._smallest_by_delta:
            epsilons_of_accountants = [
                _SmallestEpsilon(
                    epsilon=accountant.get_epsilon(target_delta), accountant=accountant
                )
                for accountant in self._chosen_accountants()
            ]
            self._smallest_by_delta[target_delta] = min(
                epsilons_of_accountants, key=attrgetter("epsilon")
            )
        return self._smallest_by_delta[target_delta]

    def _chosen_accountants(self) -> list[Accountant]:
        """Returns the accountants of which the smallest bound is taken, with all events composed, from a cache.

        They are an `RdpAccountant`, and each other accountant that the class docstring names and that suits the events.
        """
        if self._accountants is None:
            self._accountants = [self._rdp]
            if self._has_small_joint_laws():
                self._accountants.append(JointLawAccountant().compose_all(self._counted_events))
            if self._is_tuned():
                tuning = TuningAccountant(candidate_accountant=AutoAccountant)
                self._accountants.append(tuning.compose_all(self._counted_events))
            if self._is_composable():
                exact_accountant = ExactAccountant(
                    any_event_order=self.any_event_order
                ).compose_all(self._counted_events)
                if exact_accountant.work() <= _LARGEST_WORK:
                    self._accountants.append(exact_accountant)
        return self._accountants

    def _has_small_joint_laws(self) -> bool:
        """Returns True if `JointLawAccountant` is quick for the composed events and may give a smaller bound.

        The events must contain one or two different prices of a gap selection with its test (`SelectThenTestEvent`),
        all of which `_has_small_joint_law` accepts.
        """
        select_then_tests = {
            select_then_test
            for event, count in self._counted_events
            for select_then_test in count_select_then_tests(root_event=event, num_releases=count)
        }
        are_few = 0 < len(select_then_tests) <= _LARGEST_NUM_JOINT_LAWS
        return are_few and all(
            _has_small_joint_law(select_then_test) for select_then_test in select_then_tests
        )

    def _is_tuned(self) -> bool:
        """Returns True if a `TuningEvent` is the only leaf of the composed events, except for leaves of `NoOpEvent`.

        A `TuningEvent` is the price of the best of a secret number of runs. Its count is not looked at: if it was
        composed several times at once, `TuningAccountant` uses the Renyi curve.
        """
        kinds = [
            type(leaf)
            for event, count in self._counted_events
            for leaf, times in event_tree.leaves(event, num_releases=count)
            if times > 0 and not isinstance(leaf, events.NoOpEvent)
        ]
        return kinds == [events.TuningEvent]

    def _is_composable(self) -> bool:
        """Returns True if `ExactAccountant` can price all composed events, and its bound may be the smallest.

        Gaussian releases aside, there may be at most 64 different prices and 200,000 releases. Bounds for any order of
        the events also need a noisy maximum (`NoisyMaxGaussianEvent`) among them.
        """
        count_of_leaf: Counter[Event] = Counter()
        for event, count in self._counted_events:
            for leaf, times in event_tree.leaves(
                event_tree.priced_by_accesses(event), num_releases=count
            ):
                if times > 0 and not isinstance(leaf, events.GaussianEvent):
                    count_of_leaf[leaf] += times
        is_small = (
            len(count_of_leaf) <= _LARGEST_NUM_EVENTS
            and count_of_leaf.total() <= _LARGEST_NUM_STEPS
        )
        # For steps in any order, the Renyi bound is smaller unless one of them is a noisy maximum.
        has_maximum = any(isinstance(leaf, events.NoisyMaxGaussianEvent) for leaf in count_of_leaf)
        knows_all = set(map(type, count_of_leaf)) <= _COMPOSABLE
        return is_small and knows_all and (has_maximum or not self.any_event_order)


def _has_small_joint_law(event: SelectThenTestEvent) -> bool:
    """Returns True if the joint law of a gap selection and its test is quick to compute and may save much.

    The number of teachers must be at most 20,000, and at most 60 times the scale, in votes, of the selection's noise.
    """
    # the number of teachers over the scale of the selection's noise in votes
    num_scales = event.num_teachers * event.selection.epsilon / (2 * event.bit.reach)
    return event.num_teachers <= LARGEST_NUM_TEACHERS and num_scales <= _LARGEST_NUM_SCALES
