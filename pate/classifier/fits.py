"""Fits of a classifier: their streams, what they are charged to, and whether they repeat others."""

import hashlib
import heapq
import math
import os
import secrets
import uuid
import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Ledger
from pate.aggregators.aggregator import Drawn
from pate.classifier.pools import rows_as_bytes
from pate.pricing import Budget, PricedRelease
from pate.report.report import format_epsilon
from pate.run.payment import by_its_setting, require_room, seed_name
from pate.run.randomness import Streams
from pate.validation import InvalidValue, require, require_count

_KEPT = 1000  # of each fit: the smallest digests, so that fits with records in common keep records in common


class SeededNoise(UserWarning):
    """Noise came from a seed: it protects nobody who knows the seed."""


def streams_of(random_state: Any) -> Streams:
    """The streams of a seed, which are those of a run with it; without one, of a secret that nothing keeps.

    A shared generator, which would hide where the noise came from, is refused.
    """
    if random_state is None:
        return Streams.secret()
    try:
        seed = require_count("random_state", random_state, minimum=0)
    except InvalidValue as error:
        raise InvalidValue(f"{error}, or None for noise from the operating system") from None
    line = f"random_state={seed}: the noise comes from this seed and protects nobody who knows it"
    warnings.warn(line, SeededNoise, stacklevel=3)
    return Streams(seed)


class RepeatedRelease(UserWarning):
    """An earlier fit released something about the same private records."""


class RecordMemory:
    """Which records earlier fits of this process released something about, and for how much.

    Kept are digests under a key that ends with the process, of at most 1,000 records a fit. It is there to warn; what
    counts is a ledger. Two fits with one seed share their noise, which no sum of prices covers: they cost infinity.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._fits: dict[bytes, tuple[int, float, frozenset[int]]] = {}  # fits, their epsilons added up, their seeds

    def add(self, inputs: NDArray[np.float32], epsilon: float, seed: int | None = None) -> tuple[int, float]:
        """Enters a fit; the most fits that one record was part of, this one included, and their epsilons' sum."""
        rows = rows_as_bytes(inputs)
        digests = {hashlib.blake2b(row.data, digest_size=8, key=self._key).digest() for row in rows}
        kept = heapq.nsmallest(_KEPT, digests)
        own = frozenset(() if seed is None else (seed,))
        for digest in kept:
            count, spent, seeds = self._fits.get(digest, (0, 0.0, frozenset()))
            self._fits[digest] = (count + 1, math.inf if own & seeds else spent + epsilon, seeds | own)
        found = [self._fits[digest][:2] for digest in kept]
        return max(count for count, _ in found), max(spent for _, spent in found)


_MEMORY = RecordMemory()


def warn_of_repeats(inputs: NDArray[np.float32], epsilon: float, seed: int | None = None) -> None:
    """Warns where some of the records were fitted before in this process, with the same noise or with another."""
    count, spent = _MEMORY.add(inputs, epsilon, seed)
    if count > 1:
        price = f"and their epsilons add up, here to {format_epsilon(spent)}"
        if math.isinf(spent):
            price = "and no sum of epsilons covers fits that share their noise, as those with one random_state do"
        line = f"fit {count} of this process on the same records: each fit is a release of its own, {price}"
        ending = "A search or a cross-validation makes many; ledger= keeps count"
        warnings.warn(f"{line}. {ending}", RepeatedRelease, stacklevel=3)


def ledger_of_fits(
    path: str | os.PathLike[str] | None,
    max_total_epsilon: float | None,
    priced: PricedRelease,
    budget: Budget,
    *,
    seed: int | None = None,
) -> Ledger:
    """The ledger of a fit, with room for it; one that is not kept where there is no path.

    All fits count together, whichever rows they were given: the folds of a search share records, and a ledger that
    counts by digests of data would take them for other people. So a ledger that does is refused.
    """
    terms: dict[str, Any] = {"adjacency": priced.aggregator.adjacency, "target_delta": budget.target_delta}
    with by_its_setting():
        ledger = Ledger(path, **terms, accountant=budget.accountant, max_epsilon=max_total_epsilon)
        rule = "a ledger of fits alone; one of runs keeps the records of each run apart, and folds share records"
        require(not any(entry.data for entry in ledger.entries), "ledger", path, rule)
    rule = "None or another number: an earlier fit in this ledger drew its noise from this seed"
    require(not ledger.has_noise(seed_name(seed)), "random_state", seed, rule)
    require_room(ledger, priced)
    return ledger


def paid_by(ledger: Ledger, priced: PricedRelease, *, seed: int | None) -> Drawn:
    """What charges a fit to its ledger, before anything of it is drawn."""
    aggregator = priced.aggregator
    said = {"description": f"a fit: {type(aggregator).__name__}", "noise": seed_name(seed)}
    charge = partial(ledger.once, uuid.uuid4().hex, priced.event, bytes, adjacency=aggregator.adjacency, **said)
    return Drawn(charge)
