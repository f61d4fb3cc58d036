"""Computations in a pool of threads: in order, with few items in memory, and with the results of one thread."""

import threading
import time
from collections.abc import Callable, Iterator
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


def square_slowly(item: int) -> int:
    """Returns the square of an item after 2 to 16 milliseconds; of the items 0 to 7, the first takes longest."""
    time.sleep(0.002 * (8 - item % 8))
    return item * item


def test_results_of_several_threads_have_the_order_of_the_items() -> None:
    """The results of items that take different times in three threads have the order of the items."""
    squares = [item * item for item in range(20)]
    with pool_of(num_threads=3):
        assert list(in_order(square_slowly, items=range(20))) == squares
        assert list(in_order(square_slowly, items=[])) == []


def test_without_a_pool_items_are_computed_lazily_in_the_same_thread() -> None:
    """Without a pool, an item is computed when it is asked for, in the same thread."""
    threads_of_items = {}

    def note_thread(item: int) -> None:
        threads_of_items[item] = threading.get_ident()

    results = in_order(note_thread, items=range(3))
    assert threads_of_items == {}
    next(results)
    assert threads_of_items == {0: threading.get_ident()}


def test_two_items_for_each_thread_are_in_memory_at_most() -> None:
    """With two threads, the pool never reads more than four items beyond those whose results were returned."""
    items_read = []

    def read_items() -> Iterator[int]:
        for item in range(100):
            items_read.append(item)
            yield item

    with pool_of(num_threads=2):
        for num_returned, _ in enumerate(in_order(abs, items=read_items()), start=1):
            assert len(items_read) <= num_returned + 4


def test_an_error_of_one_item_ends_the_computation() -> None:
    """If item 1 of the items 0 to 999 fails, the error is raised, and no item from 10 on is computed."""
    computed_items = []

    def fail_at_item_1(item: int) -> None:
        if item == 1:
            raise ArithmeticError("item 1")
        computed_items.append(item)

    with pool_of(num_threads=2), pytest.raises(ArithmeticError, match="item 1"):
        list(in_order(fail_at_item_1, items=range(1000)))
    assert max(computed_items) < 10


def test_an_item_made_of_items_ends_though_all_threads_wait_for_some() -> None:
    """Items that are computed from items of their own come to an end, although both threads of the pool wait for some.

    A pool that is opened within another one has no effect: the outer pool of two threads stays.
    """

    def sum_of_squares_below(item: int) -> int:
        return sum(in_order(square_slowly, items=range(item)))

    with pool_of(num_threads=2), pool_of(num_threads=5):
        assert list(in_order(sum_of_squares_below, items=range(5))) == [0, 0, 1, 5, 14]
        assert sum(thread.name.startswith("blocks") for thread in threading.enumerate()) == 2


@pytest.mark.slow
def test_one_thread_for_each_product_and_the_number_from_before_afterwards() -> None:
    """Within `one_blas_thread` and `all_cores`, each matrix product runs in one thread.

    `all_cores` uses the cores for several products at once instead. After the block, also after an error in it, a
    product runs in two threads again, as before the block.
    """

    def blas_threads(item: int = 0) -> set[int]:
        """Returns the numbers of threads of all loaded libraries that multiply matrices."""
        return {
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        }

    # SciPy has such a library of its own, which a limit reaches only once it is loaded.
    with one_blas_thread():
        pass
    with threadpool_limits(limits=2, user_api="blas"):
        assert blas_threads() == {2}
        with one_blas_thread():
            assert blas_threads() == {1}
        with pytest.raises(ArithmeticError), all_cores():
            assert blas_threads() == {1}
            for threads_of_item in in_order(blas_threads, items=range(4)):
                assert threads_of_item == {1}
            raise ArithmeticError
        assert blas_threads() == {2}


def bytes_of_round(
    votes_class: type[MomentVotes], num_teachers: int, **learner_options: object
) -> bytes:
    """Returns the contents of the public features and of one sum of votes, for comparison byte by byte.

    Args:
        votes_class: the class of the votes.
        num_teachers: the number of teachers that the votes count, with 1 to 40 records each.
        **learner_options: fields of `votes_class` beside those of `MomentVotes`.
    """
    rng = np.random.default_rng(0)
    teacher_of = np.repeat(np.arange(num_teachers), 1 + np.arange(num_teachers) % 40)
    inputs = rng.normal(size=(len(teacher_of), 8)).astype(np.float32)
    pool = rng.normal(size=(2100, 8)).astype(np.float32)
    num_components = 3
    landmarks = rng.normal(size=(5, 9))
    linear_weights = rng.normal(size=(9, num_components))
    kernel = PublicKernel(
        landmarks,
        kernel_width=0.5,
        component_weights=rng.normal(size=(5, num_components)),
        linear_weights=linear_weights,
    )
    votes = votes_class(
        inputs=inputs,
        labels=rng.random((len(inputs), 2)) < 0.3,
        teacher_of=teacher_of,
        num_teachers=num_teachers,
        public_pca=replace(PublicPCA.fit(pool, max_directions=8), kernel=kernel),
        public_inputs=pool,
        records_per_teacher=8.0,
        **learner_options,
    )
    question = RoundQuestion(
        student_weights=rng.normal(size=(votes.num_features, 2)),
        label_scale=np.ones(2),
        moment_clipping=ClippedMoments(clip=0.5, num_teachers=num_teachers),
    )
    return votes.public_features.tobytes() + votes.total(question).tobytes()


def bytes_of_kernel_round() -> bytes:
    """Returns `bytes_of_round` for 80 kernel teachers."""
    return bytes_of_round(votes_class=MomentVotes, num_teachers=80)


def bytes_of_convex_round() -> bytes:
    """Returns `bytes_of_round` for three convex teachers, the learners, with 10 groups of records.

    Convex votes count each group as a teacher.
    """
    return bytes_of_round(
        votes_class=ConvexVotes,
        num_teachers=10,
        learner_of_group=np.arange(10) % 3,
        num_learners=3,
        penalty=10.0,
    )


@pytest.mark.parametrize(
    "compute_bytes",
    [
        pytest.param(bytes_of_kernel_round, id="kernel teachers"),
        pytest.param(bytes_of_convex_round, id="convex teachers"),
    ],
)
def test_votes_in_rounds_have_the_same_bytes_with_any_number_of_threads(
    compute_bytes: Callable[[], bytes],
) -> None:
    """Votes in rounds have the same bytes with one and three threads."""
    bytes_of_one_thread = compute_bytes()
    with pool_of(num_threads=3):
        assert compute_bytes() == bytes_of_one_thread


def test_logistic_students_have_the_same_bytes_with_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A logistic student has the same bytes with one and three threads, also if its 500 rows are several blocks."""
    monkeypatch.setattr("pate.models.logistic._BLOCK_ROWS", 64)
    monkeypatch.setattr("pate.models.logistic._MAX_ROWS", 128)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(500, 6)).astype(np.float32)
    labels = rng.random((500, 3)) < 0.4

    def compute_student_bytes() -> bytes:
        model = LogisticStudent().fit(inputs, labels, seed=0)
        return b"".join(array.tobytes() for array in model.arrays.values())

    bytes_of_one_thread = compute_student_bytes()
    with pool_of(num_threads=3):
        assert compute_student_bytes() == bytes_of_one_thread
