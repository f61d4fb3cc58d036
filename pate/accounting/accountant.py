"""Accountants: they compose events and convert the sum into an epsilon or a delta once."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

from pate.accounting.events import Event
from pate.validation import InvalidValue, require_probability

_LONGEST = 100  # characters of a value in a `repr`


class Accountant(ABC):
    """The base class of accountants: an accountant adds up events and returns their total as (epsilon, delta).

    Every epsilon and delta is an upper bound for the adjacency that the events were made for.
    """

    name: ClassVar[str]  # as in the configuration and in reports
    # whether the figures hold for every order of the releases, and not only for the order of the calls of `compose`
    any_order: bool = False
    failure_prob: float  # the sum of the failure probabilities of all composed events

    @abstractmethod
    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, and returns this accountant.

        Raises `InvalidValue`, and adds nothing, where the accountant cannot price an event within `event`.
        """

    @abstractmethod
    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon of all composed events at `target_delta`, which is in (0, 1).

        Raises `InvalidValue` where the failure probabilities of the events sum to `target_delta` or more.
        """

    @abstractmethod
    def get_delta(self, target_epsilon: float) -> float:
        """Returns the delta of all composed events at `target_epsilon`, which is >= 0.

        The delta includes the failure probabilities of the events, and is at most 1.
        """

    def winner(self, target_delta: float) -> str:
        """Returns the name of the accountant that computed the epsilon of `get_epsilon(target_delta)`.

        That is this accountant's own name, except for an accountant that takes the smallest epsilon of several.
        """
        return self.name

    def resolution(self, target_delta: float) -> float:
        """Returns the relative error of `get_epsilon(target_delta)` that comes from a numerical search.

        Returns 0 where epsilon is computed by a formula. Epsilons of two nearly equal releases may differ by this error
        although the exact bounds are equal.
        """
        return 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that change the computed epsilons, in types that JSON has; a ledger stores and compares them."""
        return {}

    def __repr__(self) -> str:
        """Returns the class name with the settings and figures such as the failure probability, and without an epsilon.

        An epsilon needs a delta, and may take seconds to compute.
        """
        settings = {name: abbreviated(repr(value)) for name, value in self.parameters.items()}
        described = settings | self._counts_in_words
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in described.items())})"

    @property
    def _counts_in_words(self) -> dict[str, str]:
        """The figures about all composed events that `repr` shows, as text by name."""
        return {"failure_prob": f"{self.failure_prob:g}"} if hasattr(self, "failure_prob") else {}

    def copy(self) -> Self:
        """Returns an independent accountant with the same events; adding events to the copy leaves this one as is."""
        return copy.deepcopy(self)

    def compose_all(self, counted_events: Iterable[tuple[Event, int]]) -> Self:
        """Adds several events to the total, and returns this accountant.

        Args:
            counted_events: pairs of an event and the number of times that the event is added.
        """
        for event, count in counted_events:
            self.compose(event, count=count)
        return self

    def remaining_delta(self, target_delta: float) -> float:
        """Returns `target_delta` less the failure probabilities of all composed events, a number > 0.

        Raises `InvalidValue` where the difference is not above 0.
        """
        delta_left = require_probability("target_delta", target_delta) - self.failure_prob
        if delta_left <= 0:
            rule = (
                f"a sum over all queries below target_delta, and {self.failure_prob:.3g} in all "
                f"uses up target_delta={target_delta}"
            )
            raise InvalidValue("failure_prob", rule=rule)
        return delta_left


def require_maker(accountant: Any) -> Callable[[], Accountant]:
    """Returns `accountant` if it can be called to make an empty accountant, such as the class `RdpAccountant`.

    Raises `InvalidValue` for a value that cannot be called, such as a name or an instance of an accountant.
    """
    if not callable(accountant):
        raise InvalidValue(
            "accountant", accountant, rule="a class such as pate.accounting.RdpAccountant, uncalled"
        )
    return accountant  # type: ignore[no-any-return]  # the first call shows what it makes


def abbreviated(text: str) -> str:
    """Returns a text, shortened to 100 characters with an ellipsis at the end where it is longer."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
