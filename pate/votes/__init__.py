"""Votes of teachers: on disk one bit each, counted, and in each form that an aggregator reads. Needs numpy alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.votes.histogram import histogram

if TYPE_CHECKING:
    from pate.votes.source import VoteSource
    from pate.votes.store import StoredVotes, VoteStore

_MODULE_OF = {"StoredVotes": "pate.votes.store", "VoteSource": "pate.votes.source", "VoteStore": "pate.votes.store"}

__all__ = ["StoredVotes", "VoteSource", "VoteStore", "histogram"]


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
