"""Blocks in a pool of threads: in order, never too many in memory, with the numbers that one thread gives."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pate.models import LogisticStudent
from pate.pool import in_order, pool_of
from pate.threads import all_cores, one_blas_thread
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.convex_votes import ConvexVotes
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_kernel import PublicKernel
from pate.votes.public_pca import PublicPCA
from pate.votes.round_votes import RoundQuestion


def later_the_smaller(item: int) -> int:
    """Returns the square of an item, the later the smaller the item is modulo 8."""
    time.sleep(0.002 * (8 - item % 8))
    return item * item


def test_results_of_several_threads_have_the_order_of_the_items() -> None:
    """Items that take different times in three threads are returned in their order."""
    with pool_of(num_threads=3):
        assert list(in_order(later_the_smaller, items=range(20))) == [
            item * item for item in range(20)
        ]
        assert list(in_order(later_the_smaller, items=[])) == []


def test_without_a_pool_items_are_computed_lazily_in_the_same_thread() -> None:
    """Without a pool, an item is computed when it is asked for, in the same thread."""
    makers = []
    made = in_order(lambda item: makers.append((item, threading.get_ident())), items=range(3))
    assert makers == []
    next(made)
    assert makers == [(0, threading.get_ident())]


def test_two_items_for_each_thread_are_in_memory_at_most() -> None:
    """With two threads, at most four items more than returned are read."""
    items_read = []

    def items() -> Iterator[int]:
        for item in range(100):
            items_read.append(item)
            yield item

    with pool_of(num_threads=2):
        for count, _ in enumerate(in_order(lambda item: item, items()), start=1):
            assert len(items_read) <= count + 4


def test_an_error_of_one_item_ends_the_computation() -> None:
    """Item 1 of 1,000 fails. The error is raised, and fewer than ten items were computed."""
    results = []

    def make(item: int) -> int:
        if item == 1:
            raise ArithmeticError("item 1")
        results.append(item)
        return item

    with pool_of(num_threads=2), pytest.raises(ArithmeticError, match="item 1"):
        list(in_order(make, items=range(1000)))
    assert max(results) < 10


def test_an_item_made_of_items_ends_though_all_threads_wait_for_some() -> None:
    """Items whose computation runs items of its own end, in a pool within a pool, with two threads."""

    def total(item: int) -> int:
        return sum(in_order(later_the_smaller, items=range(item)))

    with pool_of(num_threads=2), pool_of(num_threads=5):  # within a pool that one stays
        assert list(in_order(total, items=range(5))) == [0, 0, 1, 5, 14]
        assert sum(thread.name.startswith("blocks") for thread in threading.enumerate()) == 2


@pytest.mark.slow
def test_one_thread_for_each_product_and_the_number_from_before_afterwards() -> None:
    """Within `one_blas_thread` and `all_cores`, matrix products have one thread.

    Afterwards they have two again, also after an error.
    """

    def numbers() -> set[int]:
        return {
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        }

    with threadpool_limits(2, user_api="blas"):
        assert numbers() == {2}
        with one_blas_thread():
            assert numbers() == {1}
        with pytest.raises(ArithmeticError), all_cores():
            assert numbers() == {1}
            assert set().union(*in_order(lambda _: numbers(), items=range(4))) == {1}
            raise ArithmeticError
        assert numbers() == {2}


def of_rounds(kind: type[MomentVotes], num_teachers: int, **options: object) -> bytes:
    """Returns the bytes of the votes and their sum of teachers with 1 to 40 records each."""
    rng = np.random.default_rng(0)
    teacher_of = np.repeat(np.arange(num_teachers), 1 + np.arange(num_teachers) % 40)
    inputs = rng.normal(size=(len(teacher_of), 8)).astype(np.float32)
    pool = rng.normal(size=(2100, 8)).astype(np.float32)
    landmarks = rng.normal(size=(5, 9))
    noise = rng.normal(size=(9, 3))
    kernel = PublicKernel(
        landmarks, kernel_width=0.5, weights=rng.normal(size=(5, 3)), linear_weights=noise
    )
    votes = kind(
        inputs=inputs,
        labels=rng.random((len(inputs), 2)) < 0.3,
        teacher_of=teacher_of,
        num_teachers=num_teachers,
        directions=replace(PublicPCA.fit(pool, max_directions=8), kernel=kernel),
        public_inputs=pool,
        records_per_teacher=8.0,
        **options,
    )
    weights = rng.normal(size=(votes.width, 2))
    clipped_moments = ClippedMoments(clip=0.5, num_teachers=num_teachers)
    total = votes.total(
        RoundQuestion(weights, label_scale=np.ones(2), clipped_moments=clipped_moments)
    )
    return votes.public.tobytes() + total.tobytes()


def test_votes_in_rounds_have_the_same_bytes_with_any_number_of_threads() -> None:
    """Votes in rounds of kernel and convex teachers have the same bytes with one and three threads."""
    learners = {"learner_of": np.arange(10) % 3, "num_learners": 3, "penalty": 10.0}
    alone = (
        of_rounds(kind=MomentVotes, num_teachers=80),
        of_rounds(kind=ConvexVotes, num_teachers=10, **learners),
    )
    with pool_of(num_threads=3):
        assert (
            of_rounds(kind=MomentVotes, num_teachers=80),
            of_rounds(kind=ConvexVotes, num_teachers=10, **learners),
        ) == alone


def test_logistic_students_have_the_same_bytes_with_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A logistic student has the same bytes with one and three threads."""
    monkeypatch.setattr("pate.models.logistic._BLOCK_ROWS", 64)
    monkeypatch.setattr("pate.models.logistic._MANY_ROWS", 128)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(500, 6)).astype(np.float32)
    labels = rng.random((500, 3)) < 0.4

    def fitted() -> bytes:
        model = LogisticStudent().fit(inputs, labels, seed=0)
        return b"".join(array.tobytes() for array in model.arrays.values())

    single_threaded = fitted()
    with pool_of(num_threads=3):
        assert fitted() == single_threaded
