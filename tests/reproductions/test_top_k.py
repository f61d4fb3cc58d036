"""Top-k mechanisms at one sound price, and the distance of their picks from the true top k."""

import math

import numpy as np
import pytest

from pate.accounting import Adjacency, NoOpEvent, RdpAccountant
from reproductions.top_k.contender import FAMILIES, Contender, SelectionTask
from reproductions.top_k.price import SharedBudget, fit, price_row, sound_epsilon, theorem_11
from reproductions.top_k.score import repeated, scores


def selection_task(budget: SharedBudget, adjacency: str = "replace_one") -> SelectionTask:
    """Returns the task to select the two largest of eight counts up to 100."""
    return SelectionTask(
        failure_prob=budget.failure_prob,
        adjacency=Adjacency.parse(adjacency),
        k=2,
        num_items=8,
        most=100,
    )


@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove"])
@pytest.mark.parametrize("mechanism_name", FAMILIES)
def test_a_fit_is_within_the_target_and_no_finer_one_is(
    mechanism_name: str, adjacency: str
) -> None:
    """A fitted mechanism costs at most the shared epsilon, and one that is 1% more precise costs more."""
    budget = SharedBudget(epsilon=1.5, releases=3)
    task = selection_task(budget, adjacency=adjacency)
    fitted = fit(mechanism_name, task=task, budget=budget)
    assert fitted.epsilon <= 1.5 * (1 + 1e-9)
    assert (
        RdpAccountant().compose(fitted.contender.event, count=3).get_epsilon(budget.delta)
        >= fitted.epsilon
    )
    more_precise_event = FAMILIES[mechanism_name].make(task, fitted.precision * 1.01).event
    assert sound_epsilon(more_precise_event, budget) > 1.5


@pytest.mark.parametrize("mechanism_name", FAMILIES)
def test_the_same_noise_costs_about_twice_under_replace_one(mechanism_name: str) -> None:
    """Noise with an epsilon of at most 1 under add-remove has 1.9 to 2.4 times this epsilon under replace-one."""
    budget = SharedBudget(epsilon=1.0)
    row = price_row(mechanism_name, task=selection_task(budget), budget=budget)
    assert row.add_remove <= 1
    assert 1.9 * row.add_remove < row.replace_one < 2.4 * row.add_remove


def test_papers_formulas() -> None:
    """The row of a mechanism has the price by its paper's formula, and says whether the formula is true."""
    assert theorem_11(rho=0.1, target_delta=1e-5) == pytest.approx(
        0.1 + math.sqrt(0.2 * math.log(1e5))
    )
    budget = SharedBudget(epsilon=1.0)
    stable, peeling, joint = (
        price_row(name, task=selection_task(budget), budget=budget)
        for name in ("stable", "peeling", "joint")
    )
    assert stable.paper is not None
    assert (stable.paper < stable.add_remove, stable.paper_is) == (True, "false")
    precision = fit(
        name="peeling", task=selection_task(budget, adjacency="add_remove"), budget=budget
    ).precision
    rho = 2 * (precision / 2) ** 2 / 8
    assert peeling.paper == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)))
    assert (joint.paper, joint.paper_is) == (None, "not stated")


COUNTS_OF_SIX_ITEMS = np.array([5, 0, 9, 7, 7, 0])


def test_scores_by_hand() -> None:
    """The scores of four picks of up to three items are those that were worked out by hand."""
    picks = np.array([[2, 3, 0], [0, 2, -1], [1, 5, 2], [-1, -1, -1]])
    scores_of_draws = scores(COUNTS_OF_SIX_ITEMS, picks, k=3, ordered=True)  # true counts 9, 7, 7
    assert scores_of_draws.recall == pytest.approx([2 / 3, 1 / 3, 1 / 3, 0])
    assert scores_of_draws.precision == pytest.approx([2 / 3, 1 / 2, 1 / 3, 1])
    assert scores_of_draws.l_inf.tolist() == [2, 7, 9, 9]
    assert scores_of_draws.l_1.tolist() == [2, 13, 18, 23]
    assert scores_of_draws.k_relative.tolist() == [2, 7, 7, 7]


def test_ties_are_interchangeable_and_zeros_are_never_true() -> None:
    """Either of two equal counts belongs to the true top k, and a count of 0 never does."""
    assert scores(
        COUNTS_OF_SIX_ITEMS, picks=np.array([[2, 3], [2, 4]]), k=2, ordered=True
    ).recall.tolist() == [1, 1]
    scores_of_all_items = scores(
        COUNTS_OF_SIX_ITEMS, picks=np.array([[0, 1, 2, 3, 4]]), k=5, ordered=True
    )
    assert scores_of_all_items.recall.tolist() == [1]
    assert scores_of_all_items.precision.tolist() == [4 / 5]
    assert scores(
        COUNTS_OF_SIX_ITEMS, picks=np.array([[2, 3, 4]]), k=2, ordered=True
    ).precision == pytest.approx([2 / 3])


def test_draws_are_repeated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten repeats of three counts are drawn in blocks of four, four and two if a block may have 12 numbers."""
    block_sizes = []

    def pick(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        num_draws = len(counts)
        block_sizes.append(num_draws)
        return rng.integers(low=0, high=2, size=(num_draws, 1))

    monkeypatch.setattr("reproductions.top_k.score._NUMBERS_AT_ONCE", 12)
    scores_of_repeats = repeated(
        Contender(event=NoOpEvent(), pick=pick),
        counts=np.array([1, 0, 0]),
        k=1,
        ordered=True,
        repeats=10,
        rng=np.random.default_rng(0),
    )
    assert block_sizes == [4, 4, 2]
    assert scores_of_repeats.recall.shape == (10,)
    assert set(scores_of_repeats.recall.tolist()) == {0.0, 1.0}
