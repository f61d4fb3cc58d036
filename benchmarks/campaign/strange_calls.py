"""Calls of the library with arguments that nobody expects: a mistake is one line, and no price is NaN or below 0."""

from __future__ import annotations

import importlib
import inspect
import math
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.campaign.strange_votes import strange_array

_MODULES = ("pate.aggregators", "pate.mechanisms", "pate.accounting", "pate.accounting.target_charging")
_VALUES: tuple[Any, ...] = (
    *(
        math.nan,
        math.inf,
        -math.inf,
        -1,
        0,
        1,
        2,
        3.5,
        40.0,
        1e-9,
        1e-300,
        5e-324,
        1e13,
        1e308,
        -0.0,
        2**31,
        2**63,
        10**400,
    ),
    *(True, None, "", "abc", "gumbel", "gaussian", b"x", [], [1], (), (1.0, 2.0), {}, {"a": 1}, object(), print, 1j),
    *(np.float64(2.0), np.int64(3), np.float32("nan"), np.array(2.0), np.zeros(3), np.ones((2, 2), bool)),
)
_PLAUSIBLE: dict[str, Any] = {
    "accountant": None,
    "adjacency": "replace_one",
    "count": 3,
    "epsilon": 0.5,
    "event": None,
    "failure_prob": 1e-9,
    "hit_prob": 0.4,
    "k": 2,
    "max_k": 3,
    "noise_multiplier": 2.0,
    "noise_std": 3.0,
    "num_labels": 5,
    "num_queries": 4,
    "num_teachers": 7,
    "rho": 0.1,
    "selection_scale": 2.0,
    "target_delta": 1e-6,
    "target_hits": 3,
    "test_std": 2.0,
}
_SKIPPED = ("Adjacency", "Ledger", "calibrate", "optimal_stability_table")  # an enum; files; searches that take time
_STRANGE = 0.4
_NO_PRICE = 3


def strange_call(rng: random.Random) -> tuple[str, Callable[[], None]]:
    """The name of something public, and a call of it that exits with 2 and one line, or with 0."""
    module = importlib.import_module(rng.choice(_MODULES))
    name = rng.choice([name for name in module.__all__ if callable(getattr(module, name)) and name not in _SKIPPED])
    made = getattr(module, name)
    try:
        parameters = list(inspect.signature(made).parameters.values())
    except ValueError:
        parameters = []
    arguments = {p.name: _argument(p, rng) for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    arguments = {key: value for key, value in arguments.items() if value is not inspect.Parameter.empty}
    votes, teachers = strange_array(rng), rng.choice([7, 7, *_VALUES])

    def act() -> None:
        try:
            _use(made(**arguments), votes, teachers)
        except (ValueError, TypeError, MemoryError) as error:
            lines = str(error).splitlines()
            if len(lines) > 1:
                raise RuntimeError(f"a message of {len(lines)} lines") from error
            sys.stderr.write(f"{error or type(error).__name__}\n")
            raise SystemExit(2) from None

    shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{module.__name__}.{name}({shown})"[:300], act


def _argument(parameter: inspect.Parameter, rng: random.Random) -> Any:
    """A strange value, a plausible one, or none."""
    if rng.random() < _STRANGE / 2:
        return rng.choice(_VALUES)
    if parameter.default is not inspect.Parameter.empty:
        return inspect.Parameter.empty
    if parameter.name in _PLAUSIBLE and rng.random() > _STRANGE / 2:
        return _PLAUSIBLE[parameter.name]
    return rng.choice(_VALUES)


def _use(made: Any, votes: Any, teachers: Any) -> None:
    """Prices what has a price, and has aggregators and mechanisms look at votes."""
    from pate.accounting import Event, RdpAccountant

    if hasattr(made, "aggregate"):
        event = made.aggregate(votes, num_teachers=teachers, rng=np.random.default_rng(0)).event
    elif isinstance(made, Event):
        event = made
    else:
        event = getattr(made, "event", None)
        if callable(made) and event is not None:
            made(votes, rng=np.random.default_rng(0))
    if isinstance(event, Event):
        epsilon = RdpAccountant().compose(event).get_epsilon(1e-3)
        if not epsilon >= 0:
            sys.stderr.write(f"epsilon {epsilon} of {event}\n")
            raise SystemExit(_NO_PRICE)
