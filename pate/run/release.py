"""The release stage: what was priced is charged, then drawn, then on disk; a release on disk is read back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Ledger
from pate.aggregators import Release, ReleaseContext
from pate.aggregators.expected.useless import without_warning
from pate.aggregators.release import PublicNames
from pate.aggregators.release_context import Watch
from pate.files.kept_arrays import NOTHING_KEPT, KeptArrays
from pate.pricing import PricedRelease
from pate.report import format_epsilon
from pate.run.payment import Payment
from pate.run.randomness import Randomness, Streams
from pate.run.student_prior import StudentPrior
from pate.run.workplace import Workplace
from pate.student.student import Learner
from pate.votes.source import VoteSource


def draw(
    priced: PricedRelease,
    source: VoteSource,
    *,
    streams: Streams | Randomness,
    student: Learner | None,
    inputs: NDArray[np.float32],
    ledger: Ledger | None = None,
    kept: KeptArrays = NOTHING_KEPT,
    watch: Watch | None = None,
) -> Release:
    """Has the aggregator charge the ledger, draw the noise, and release; the one place where votes are released.

    Args:
        priced: what is released, at which price.
        source: the votes.
        streams: the noise, and the seed of a student whose predictions are the prior.
        student: whose predictions are the prior, for an aggregator that goes by one; None for others.
        inputs: float32 `[Q, …]`, the queries.
        ledger: charged before anything is drawn; None charges nothing.
        kept: see `ReleaseContext`.
        watch: see `ReleaseContext`.
    """
    aggregator, prior = priced.aggregator, None
    if aggregator.expects_prior and student is not None:
        prior = StudentPrior(student, inputs, streams.seeds("student", 1)[0], never_empty=aggregator.never_empty)
    context = ReleaseContext(streams.generator("noise"), ledger, kept, prior, watch)
    with without_warning():  # who priced it has judged it
        return aggregator.release_from(source, context)


def release_once(
    payment: Payment,
    source: VoteSource,
    place: Workplace,
    *,
    student: Learner | None,
    inputs: NDArray[np.float32],
    names: PublicNames,
) -> Release:
    """The release of a run: read back from its file, or else drawn and written. The noise's secret is destroyed last.

    Args:
        payment: what is released, and the ledger that is charged for it.
        source: the votes.
        place: where the run works.
        student: whose predictions are the prior, for an aggregator that goes by one; None for others.
        inputs: float32 `[Q, …]`, the queries.
        names: of the queries and labels.

    Raises:
        InvalidValue: the ledger does not hold exactly the price. Nothing is written to the published folder then.
    """
    priced = payment.priced
    for line in payment.charge_total():
        place.monitor.say(line)
    if payment.release.exists():
        payment.require_paid()
        release = priced.aggregator.load_release(payment.release, priced.event, source)
        payment.enter_release()
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
                ledger=payment.ledger,
                kept=place.kept,
                watch=watch,
            )
            payment.seal(release, names)
    place.randomness.forget_noise()
    return release
