"""Which fields of an aggregator are its noise: given by whoever makes it, or solved for from a target."""

from __future__ import annotations

from dataclasses import fields

from pate.aggregators.aggregator import Aggregator
from pate.files.fingerprint import full_text

_FACTOR = 2.0


def declared(kind: type[Aggregator], mark: str = "noise") -> frozenset[str]:
    """The fields that a class marks in their metadata.

    Args:
        kind: the class.
        mark: `noise`, what calibration changes and what may be given in its place; `solved`, what it sets besides.
    """
    return frozenset(item.name for item in fields(kind) if item.metadata.get(mark))


def noise_fields(aggregator: Aggregator) -> frozenset[str]:
    """The fields that are declared noise, and those that `scaled` changes although nobody declared them.

    >>> from pate.aggregators import GaussianVotes
    >>> sorted(noise_fields(GaussianVotes(noise_std=40.0)))
    ['noise_std']
    """
    try:
        scaled = vars(aggregator.scaled(_FACTOR))
    except (ValueError, NotImplementedError):  # such as a ready table, which is not scaled
        return declared(type(aggregator))
    before = vars(aggregator)
    changed = {name for name in scaled if full_text(scaled[name]) != full_text(before.get(name))}
    return declared(type(aggregator)) | changed
