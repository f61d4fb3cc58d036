"""The release stage: what is drawn is committed with its charge before anybody sees it, and read back ever after."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import Release, ReleaseContext, TrainingSet
from pate.aggregators.aggregator import Drawn, Watch, without_warning
from pate.aggregators.release import PublicNames
from pate.models.student import Learner
from pate.pricing import PricedRelease
from pate.report import format_epsilon
from pate.run.folder import Workplace
from pate.run.payment import Payment
from pate.run.randomness import Randomness, Streams
from pate.votes.source import Bits, VoteSource


def expected_labels(
    student: Learner,
    inputs: NDArray[np.float32],
    seed: int,
    never_empty: bool,
    labels: Bits,
    answered: Bits,
    num_queries: int,
) -> Bits:
    """The labels of the next queries that a student expects, trained on what was released before, `[start, L]`.

    Nothing before anything was answered. Where every answer has a label, `never_empty`, a student that predicts none
    names its likeliest. `inputs` are those of all queries.
    """
    start = len(labels)
    expected = np.zeros((num_queries, labels.shape[1]), dtype=np.bool_)
    if not answered.any():
        return expected
    released = TrainingSet(inputs[:start][answered], labels[answered])
    model = student.learn(released, pool=inputs[:0], seed=seed)
    following = inputs[start : start + num_queries]
    expected |= model.predict(following)
    if never_empty:
        empty = ~expected.any(axis=1)
        expected[np.flatnonzero(empty), model.predict_proba(following).argmax(axis=1)[empty]] = True
    return expected


def draw(
    priced: PricedRelease,
    source: VoteSource,
    *,
    streams: Streams | Randomness,
    student: Learner | None,
    inputs: NDArray[np.float32],
    drawn: Drawn | None = None,
    watch: Watch | None = None,
) -> Release:
    """Has the aggregator draw and release, as `drawn` commits and charges it; the one place where votes are released.

    Without `drawn` it is kept in memory and charged to nobody. For an aggregator that goes by a prior, it is what the
    student predicts of the queries, `inputs`, float32 `[Q, …]`; the streams have the noise and the student's seed.
    """
    aggregator, prior = priced.aggregator, None
    if aggregator.expects_prior and student is not None:
        prior = partial(expected_labels, student, inputs, streams.seeds("student", 1)[0], aggregator.never_empty)
    context = ReleaseContext(streams.generator("noise"), None, drawn, prior, watch)
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
    """The release of a run, in the ledger and in its file: read back, or else drawn. For arguments see `draw`.

    Raises:
        InvalidValue: the ledger does not hold exactly the price. Nothing is written to the published folder then.
    """
    priced = payment.priced
    with place.monitor.stage("releasing labels", priced.shape.num_queries) as advance:

        def watch(asked: int, hits: int, left: int) -> None:
            place.events.hits(asked, hits=hits, remaining_hits=left, epsilon=priced.epsilon)
            advance(asked, f"{hits} hits, {left} remaining, epsilon {format_epsilon(priced.epsilon)}")

        streams = place.randomness
        release = draw(priced, source, streams=streams, student=student, inputs=inputs, drawn=payment, watch=watch)
    payment.save(release, names, place.monitor)
    return release
