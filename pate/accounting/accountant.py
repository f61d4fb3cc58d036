"""Accountants: they compose events and convert the sum into an epsilon or a delta once."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

from pate.accounting.events import Event
from pate.validation import InvalidValue, require_probability

_LONGEST = 100  # characters of a value in a `repr`


class Accountant(ABC):
    """The price of a composition of events, as (epsilon, delta).

    Every figure is an upper bound for the adjacency that the events were made for.
    """

    name: ClassVar[str]  # as in the configuration and in reports
    # True where the figures hold for every order of the releases, and not only for the order of the calls of `compose`
    any_order: bool = False
    failure_prob: float  # the sum of the failure probabilities of all composed events

    @abstractmethod
    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event, `count` times, and returns the accountant.

        Raises `InvalidValue`, and adds nothing, where the accountant cannot price a part of the event.
        """

    @abstractmethod
    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon spent at `target_delta`; raises where failure probabilities alone reach that delta."""

    @abstractmethod
    def get_delta(self, target_epsilon: float) -> float:
        """Returns the delta spent at `target_epsilon`, failure probabilities included, at most 1."""

    def winner(self, target_delta: float) -> str:
        """Returns the name of the accountant whose figure `get_epsilon` returns: its own, unless it asks others."""
        return self.name

    def resolution(self, target_delta: float) -> float:
        """Returns the relative error of `get_epsilon` where it is searched for; 0 where epsilon is computed.

        Epsilons of two nearly equal releases may differ by this error more than exact bounds would.
        """
        return 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings that decide the figures beside the name, in JSON's types; a ledger compares them."""
        return {}

    def __repr__(self) -> str:
        """Returns the settings and the counts; an epsilon needs a delta, and may take seconds."""
        settings = {name: abbreviated(repr(value)) for name, value in self.parameters.items()}
        described = settings | self._counts_in_words
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in described.items())})"

    @property
    def _counts_in_words(self) -> dict[str, str]:
        """The counts of all composed events by name, as `repr` shows them."""
        return {"failure_prob": f"{self.failure_prob:g}"} if hasattr(self, "failure_prob") else {}

    def copy(self) -> Self:
        """Returns an independent accountant to which the same events were added."""
        return copy.deepcopy(self)

    def compose_all(self, counted: Iterable[tuple[Event, int]]) -> Self:
        """Adds events with their counts, and returns the accountant."""
        for event, count in counted:
            self.compose(event, count)
        return self

    def remaining_delta(self, target_delta: float) -> float:
        """Returns the part of `target_delta`, > 0, that failure probabilities leave; raises where they leave none."""
        left = require_probability("target_delta", target_delta) - self.failure_prob
        if left <= 0:
            rule = (
                f"a sum over all queries below target_delta, and {self.failure_prob:.3g} in all "
                f"uses up target_delta={target_delta}"
            )
            raise InvalidValue("failure_prob", rule=rule)
        return left


def require_maker(accountant: Any) -> Callable[[], Accountant]:
    """Returns the maker of an empty accountant; raises `InvalidValue` for a name or an accountant itself."""
    if not callable(accountant):
        raise InvalidValue(
            "accountant", accountant, rule="a class such as pate.accounting.RdpAccountant, uncalled"
        )
    return accountant  # type: ignore[no-any-return]  # the first call shows what it makes


def abbreviated(text: str) -> str:
    """Returns a text, cut to 100 characters where it is longer."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
