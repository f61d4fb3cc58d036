"""What a release is made with, beside the votes: its noise, its ledger, and what was done before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pate.files.kept_arrays import KeptArrays

if TYPE_CHECKING:
    from pate.accounting import Ledger

Bits = NDArray[np.bool_]

Watch = Callable[[int, int, int], None]
"""Told how far a session is: queries asked, hits among them, hits that are left."""


@runtime_checkable
class PriorRule(Protocol):
    """Predicts the next answers before each round, from earlier rounds.

    Attributes:
        name: rules that can answer differently have different names; the name is a part of the ledger's key.
    """

    @property
    def name(self) -> str:
        """See above."""

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """The expected labels of the queries that follow, `[num_queries, L]`; a row without a label expects nothing.

        Args:
            labels: `[start, L]` released in the rounds before.
            answered: `[start]`.
            num_queries: of the next round.
        """


@dataclass(frozen=True, eq=False)
class ReleaseContext:
    """What `Aggregator.release_from` gets besides the votes.

    Attributes:
        rng: fresh noise comes from it.
        ledger: charged, and on disk, before any noise is drawn; None charges nothing.
        kept: where intermediate results lie. What is there is neither drawn nor charged again.
        prior: what a student expects; for aggregators that `expects_prior`.
        watch: told how far a session is.
    """

    rng: np.random.Generator
    ledger: Ledger | None = None
    kept: KeptArrays = field(default_factory=KeptArrays)
    prior: PriorRule | None = None
    watch: Watch | None = None
