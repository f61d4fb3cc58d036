"""The warning of a library call whose answers would say next to nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING

from pate.aggregators.expected.expected_release import ExpectedRelease
from pate.validation import InvalidValue

if TYPE_CHECKING:
    from pate.aggregators.aggregator import Aggregator

_STACK_LEVEL = 5
_unwatched: ContextVar[bool] = ContextVar("unwatched", default=False)


class UselessReleaseWarning(UserWarning):
    """The noise hides even votes on which all teachers agree."""


@contextmanager
def without_warning() -> Iterator[None]:
    """Where a release was judged before, or is nobody's."""
    token = _unwatched.set(True)
    try:
        yield
    finally:
        _unwatched.reset(token)


def warn_if_useless(aggregator: Aggregator, *, num_queries: int, num_labels: int, num_teachers: int) -> None:
    """Warns, once for each aggregator and shape, before anything is charged."""
    if _unwatched.get():
        return
    shape = (num_queries, num_labels, num_teachers)
    try:
        _warned(aggregator, *shape)
    except TypeError:  # an aggregator with a field that has no hash
        _warn(aggregator, *shape)


def _warn(aggregator: Aggregator, num_queries: int, num_labels: int, num_teachers: int) -> None:
    try:
        expected = aggregator.expected_release(
            num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers
        )
    except InvalidValue:  # an aggregator of one's own that takes no made-up votes
        return
    if expected.is_useless:
        warnings.warn(_said(aggregator, expected, num_teachers), UselessReleaseWarning, stacklevel=_STACK_LEVEL)


_warned = lru_cache(maxsize=4096)(_warn)


def _said(aggregator: Aggregator, expected: ExpectedRelease, num_teachers: int) -> str:
    heard = f"unanimous votes of {num_teachers} teachers would be heard in {expected.success:.0%} of the cases"
    remedy = "take more teachers or less noise; pate-account suggest=true finds numbers that work"
    return f"aggregator={type(aggregator).__name__}: {heard}, where chance has 50%; {remedy}"
