"""`ablate_recipe` scores recipes with one constant changed, in rows that the command line asks for."""

import numpy as np
import pytest

from pate.data import Dataset, Split
from pate.votes import DEFAULT_RECIPE, Recipe
from scripts import ablate_recipe
from scripts.ablate_recipe import Ablation, Row, Score
from tests.refusals import refused_parameter


def test_each_value_is_a_row_below_the_default() -> None:
    """`trust=0,0.25 num_rounds=5` gives four rows: the default recipe, and one for each value."""
    rows = ablate_recipe.rows_of(words=["trust=0,0.25", "num_rounds=5"], base=DEFAULT_RECIPE)
    assert rows == [
        Row(name="default", recipe=DEFAULT_RECIPE),
        Row(name="trust=0", recipe=Recipe(trust=0)),
        Row(name="trust=0.25", recipe=Recipe(trust=0.25)),
        Row(name="num_rounds=5", recipe=Recipe(num_rounds=5)),
    ]


def test_settings_hold_in_all_rows() -> None:
    """With the base recipe `num_rounds=5`, the argument `trust=0.25` gives two rows, both of five rounds."""
    base = ablate_recipe.settings_in(["num_rounds=5"])
    rows = ablate_recipe.rows_of(words=["trust=0.25"], base=base)
    assert [row.recipe for row in rows] == [
        Recipe(num_rounds=5),
        Recipe(num_rounds=5, trust=0.25),
    ]


def test_a_value_of_the_base_has_no_row_of_its_own() -> None:
    """A value that the base recipe has gets no row beside the default."""
    rows = ablate_recipe.rows_of(words=["trust=0.5,0.25"], base=DEFAULT_RECIPE)
    assert [row.name for row in rows] == ["default", "trust=0.25"]


def test_an_unknown_constant_is_refused() -> None:
    """A constant that no recipe has is refused and named."""
    with refused_parameter("recipe.trusted"):
        ablate_recipe.rows_of(words=["trusted=1"], base=DEFAULT_RECIPE)


def test_differences_are_taken_seed_by_seed() -> None:
    """The table shows the mean score over two seeds, and its difference to the default with a standard error.

    The difference is taken for each seed before the mean.
    """
    rows = [Row(name="default", recipe=DEFAULT_RECIPE), Row(name="trust=0", recipe=Recipe(trust=0))]
    scores_of_rows = [
        [
            Score(mean_average_precision=0.1, micro_f1=0.5),
            Score(mean_average_precision=0.3, micro_f1=0.5),
        ],
        [
            Score(mean_average_precision=0.2, micro_f1=0.5),
            Score(mean_average_precision=0.5, micro_f1=0.5),
        ],
    ]
    assert ablate_recipe.table(rows, scores_of_rows).splitlines() == [
        "| recipe  | mean AP | difference       | micro-F1 | difference |",
        "|---------|---------|------------------|----------|------------|",
        "| default | 0.2000  | 0                | 0.5000   | 0          |",
        "| trust=0 | 0.3500  | +0.1500 ± 0.0500 | 0.5000   | 0          |",
    ]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Returns a data set with a thousand private groups of three records.

    A label is true if a linear function of the inputs exceeds 1.
    """
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(6, 4))

    def split(num_records: int, first_group: int, group_size: int) -> Split:
        inputs = rng.normal(size=(num_records, 6)).astype(np.float32)
        ids = np.arange(num_records)
        return Split(
            inputs=inputs,
            labels=inputs @ directions > 1,
            record_ids=ids + first_group * 10,
            group_ids=first_group + ids // group_size,
        )

    return Dataset(
        name="linear",
        real=False,
        kind="features",
        label_names=("a", "b", "c", "d"),
        private=split(num_records=3000, first_group=0, group_size=3),
        public=split(num_records=400, first_group=10_000, group_size=1),
        test=split(num_records=200, first_group=20_000, group_size=1),
    )


def test_groups_of_the_validation_part_have_no_vote(dataset: Dataset) -> None:
    """Of 1,000 private groups, 150 become the validation part, which stands in for the test split.

    They have all their records there. No group is in both splits.
    """
    part = ablate_recipe.with_validation(dataset, seed=1)
    assert part.private.num_groups == 850
    assert part.test.num_groups == 150
    assert not np.isin(part.test.group_ids, part.private.group_ids).any()
    assert len(part.private) + len(part.test) == len(dataset.private)


def test_fewer_groups_keep_all_their_records(dataset: Dataset) -> None:
    """Of 1,000 private groups of three records, 200 are kept with their 600 records."""
    part = ablate_recipe.with_fewer_groups(dataset, num_groups=200, seed=1)
    assert part.private.num_groups == 200
    assert len(part.private) == 600


@pytest.mark.slow
def test_one_round_scores_worse_than_twenty(dataset: Dataset) -> None:
    """The default recipe has a higher mean average precision than one with a single round and little learning time.

    If the score of the default recipe is computed again, it is the same.
    """
    ablation = Ablation(dataset=dataset, epsilon=4.0, delta=1e-5, num_queries=200)
    usual = ablation.score(DEFAULT_RECIPE, seed=0)
    hurried = ablation.score(Recipe(num_rounds=1, longer=0.01), seed=0)
    assert hurried.mean_average_precision < usual.mean_average_precision
    assert ablation.score(DEFAULT_RECIPE, seed=0) == usual


@pytest.mark.slow
def test_convex_teachers_are_ablated_too(dataset: Dataset) -> None:
    """With 20 convex teachers, the default recipe has a mean average precision above the frequency of the labels."""
    ablation = Ablation(
        dataset=dataset, epsilon=4.0, delta=1e-5, num_queries=200, num_convex_teachers=20
    )
    usual = ablation.score(DEFAULT_RECIPE, seed=0)
    assert usual.mean_average_precision > dataset.test.labels.mean()


@pytest.mark.parametrize("argument", ["trust=2", "trus=1"])
def test_a_wrong_value_ends_with_2_and_a_line(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script refuses an invalid value and an unknown constant with exit code 2, and one line on standard error."""
    with pytest.raises(SystemExit) as ended:
        ablate_recipe.main([argument])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
