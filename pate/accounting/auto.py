"""The accountant that asks the others: the least of their bounds, of those that are affordable."""

from collections import Counter
from typing import Self

from pate.accounting import event_json, event_tree, events
from pate.accounting.accountant import Accountant
from pate.accounting.events import Event
from pate.accounting.exact import ExactAccountant
from pate.accounting.joint_law import MOST_TEACHERS, JointLawAccountant, select_then_tests
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.validation import require_probability

# Kinds that optimal composition does not know, or is not the tightest for.
_OTHERS = (
    events.ZCdpEvent,
    events.SmoothSensitivityEvent,
    events.SessionEvent,
)
_STEPS = {kind for kind in event_json.EVENT_KINDS.values() if not issubclass(kind, _OTHERS)}
_MOST_DIFFERENT = 64  # events
_MOST_STEPS = 200_000
_MOST_WORK = 3000  # of `ExactAccountant.work`: half a second or so
_MOST_OF_JOINT_LAW = 2  # different events
# teachers over the scale of the selection's noise: beyond, the joint law saves little
_MOST_SCALES = 60.0


class AutoAccountant(AccountantBesideRenyi):
    """The smallest epsilon or delta of all accountants that can price the composition within seconds; the default.

    It asks the Renyi accountant. It asks optimal composition, if that knows every event and takes few seconds. And it
    asks the joint law of selection and test, for a stable top-k of at most 60 times as many votes as its noise. No
    figure depends on what else is installed.

    Each bound holds for what was composed, so the least does, whose accountant `winner` names. None holds for prices
    that were chosen by looking at outputs. Figures depend on what optimal composition would take: more than 180 queries
    with an optimal table of the stability test are not composed so.

    Optimal composition holds for the order of its steps. With `any_order` it is asked for noisy maxima alone, step by
    step, and the figure holds for whatever order the events had.

    >>> from pate.accounting import BoundedRangeEvent
    >>> spent = AutoAccountant().compose(BoundedRangeEvent(0.1), 20)
    >>> round(spent.get_epsilon(1e-6), 2), spent.winner(1e-6)
    (0.93, 'exact')
    """

    name = "auto"

    def __init__(self, *, any_order: bool = False) -> None:
        super().__init__()
        self.any_order = any_order
        self._composed: list[tuple[Event, int]] = []
        self._asked: list[Accountant] | None = None
        self._found: dict[float, tuple[float, Accountant]] = {}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event `count` times; all accountants that it asks get the same events."""
        self._rdp.compose(event, count)
        self.failure_prob = self._rdp.failure_prob
        self._composed.append((event, count))
        self._asked = None
        self._found.clear()
        return self

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the least epsilon that one of its accountants bounds at `target_delta`."""
        return self._least(target_delta)[0]

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the least delta that one of its accountants bounds at `target_epsilon`."""
        return min(accountant.get_delta(target_epsilon) for accountant in self._accountants())

    def winner(self, target_delta: float) -> str:
        """Returns the name of the accountant whose epsilon is the least."""
        return self._least(target_delta)[1].name

    def resolution(self, target_delta: float) -> float:
        """Returns the resolution of the accountant whose epsilon is the least."""
        return self._least(target_delta)[1].resolution(target_delta)

    def _least(self, target_delta: float) -> tuple[float, Accountant]:
        """The least epsilon, and the accountant that found it."""
        require_probability("target_delta", target_delta)
        if target_delta not in self._found:
            candidates = [
                (accountant.get_epsilon(target_delta), accountant)
                for accountant in self._accountants()
            ]
            self._found[target_delta] = min(candidates, key=lambda pair: pair[0])
        return self._found[target_delta]

    def _accountants(self) -> list[Accountant]:
        """Returns those to ask: the two slow ones only where they are quick and know every event."""
        if self._asked is not None:
            return self._asked
        accountants = self._asked = [self._rdp]
        kinds = {
            kind for event, count in self._composed for kind in select_then_tests(event, count)
        }
        if 0 < len(kinds) <= _MOST_OF_JOINT_LAW and all(
            kind.num_teachers <= MOST_TEACHERS
            and kind.num_teachers * kind.selection.epsilon / (2 * kind.bit.reach) <= _MOST_SCALES
            for kind in kinds
        ):
            accountants.append(JointLawAccountant().compose_all(self._composed))
        different = Counter[Event]()
        for event, count in self._composed:
            for leaf, times in event_tree.leaves(event_tree.by_accesses(event), count=count):
                if times > 0 and not isinstance(leaf, events.GaussianEvent):
                    different[leaf] += times
        few = len(different) <= _MOST_DIFFERENT and different.total() <= _MOST_STEPS
        # Of steps in any order, whose pairs are chosen one by one, Renyi's bound is the tighter but for noisy maxima.
        has_maximum = any(isinstance(leaf, events.NoisyMaxGaussianEvent) for leaf in different)
        composable = few and set(map(type, different)) <= _STEPS
        if composable and (has_maximum or not self.any_order):
            exact = ExactAccountant(any_order=self.any_order).compose_all(self._composed)
            if exact.work() <= _MOST_WORK:
                accountants.append(exact)
        return accountants
