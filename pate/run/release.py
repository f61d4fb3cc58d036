"""The release stage: what was priced is charged, then drawn, then on disk; a release on disk is read back."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Ledger
from pate.aggregators import Release, ReleaseContext
from pate.aggregators.release_context import Watch
from pate.files.kept_arrays import KeptArrays
from pate.pricing import PricedRelease
from pate.report import format_epsilon
from pate.run.student_prior import StudentPrior
from pate.run.workplace import Workplace
from pate.student.student import Learner
from pate.validation import InvalidValue
from pate.votes.source import VoteSource


class Streams(Protocol):
    """Streams of random numbers by purpose: `pate.run.randomness`."""

    def generator(self, purpose: str) -> np.random.Generator:
        """A fresh generator at the start of the purpose's stream."""

    def seeds(self, purpose: str, count: int) -> list[int]:
        """That many seeds of 32 bits."""


def draw(
    priced: PricedRelease,
    source: VoteSource,
    *,
    streams: Streams,
    student: Learner,
    inputs: NDArray[np.float32],
    ledger: Ledger | None = None,
    kept: KeptArrays = KeptArrays(),  # noqa: B008 - it is frozen
    watch: Watch | None = None,
) -> Release:
    """Charges the ledger, draws the noise, and releases.

    Args:
        priced: what is released, at which price.
        source: the votes.
        streams: the noise, and the seed of a student whose predictions are the prior.
        student: whose predictions are the prior, for an aggregator that goes by one.
        inputs: float32 `[Q, …]`, the queries.
        ledger: charged before anything is drawn; None charges nothing.
        kept: see `ReleaseContext`.
        watch: see `ReleaseContext`.
    """
    aggregator, prior = priced.aggregator, None
    if aggregator.expects_prior:
        prior = StudentPrior(student, inputs, streams.seeds("student", 1)[0], never_empty=aggregator.never_empty)
    context = ReleaseContext(streams.generator("noise"), ledger, kept, prior, watch)
    return aggregator.release_from(source, context)


def released(
    priced: PricedRelease,
    source: VoteSource,
    place: Workplace,
    *,
    ledger: Ledger,
    student: Learner,
    inputs: NDArray[np.float32],
) -> Release:
    """The release of a run: read back from its file, or else drawn and written; the noise's secret is destroyed last.

    Args:
        priced: as in `draw`, like all other arguments but one.
        source: the votes.
        place: where the run works.
        ledger: the run's.
        student: for the prior.
        inputs: the queries.

    Raises:
        InvalidValue: a release that the ledger knows nothing of.
    """
    path = place.folder.release / "release.npz"
    if path.exists():
        release = priced.aggregator.load_release(path, priced.event, source)
    else:
        with place.monitor.stage("releasing labels", priced.shape.num_queries) as advance:

            def watch(asked: int, hits: int, left: int) -> None:
                place.events.hits(asked, hits=hits, remaining_hits=left, epsilon=priced.epsilon)
                advance(asked, f"{hits} hits, {left} remaining, epsilon {format_epsilon(priced.epsilon)}")

            release = draw(
                priced,
                source,
                streams=place.randomness,
                student=student,
                inputs=inputs,
                ledger=ledger,
                kept=place.kept,
                watch=watch,
            )
            release.save(path)
    place.randomness.forget_noise()
    if not ledger.entries:
        raise InvalidValue(f"ledger={ledger.path}: expected the charge of {path}, found none")
    return release
