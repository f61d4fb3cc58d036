"""Arguments that are no arrays of moderate numbers are refused in a line with their name, and without their values."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from pate import PATEClassifier
from pate.accounting import (
    BoundedRangeEvent,
    GaussianEvent,
    OneBitEvent,
    gaussian_delta,
    gaussian_epsilon,
)
from pate.accounting.target_charging import (
    best_session_price,
    boundary_distribution,
    common_target,
    exact_hit_prob,
)
from pate.aggregators import (
    BoundaryMax,
    CenteredVotes,
    ClippedVotes,
    ConfidentVotes,
    GaussianVotes,
    StableTopK,
    counts_for,
)
from pate.data import Dataset, Partition, Split
from pate.mechanisms import ConditionalRelease, PeelingTopK, RunTwice, StabilityTest, SubsetPeeling
from pate.mechanisms.calls.sparse_vector import SparseVectorSession
from pate.models import LinearStudent, Shard, StudentModel
from pate.models.linear_model import LinearModel
from pate.validation import InvalidValue
from pate.votes import histogram
from tests.refusals import ANY, Refusal, refused_parameter

RNG = np.random.default_rng(0)
NUM_RECORDS = 30
INPUTS = RNG.standard_normal((NUM_RECORDS, 4)).astype(np.float32)
LABELS = RNG.random((NUM_RECORDS, 3)) < 0.4
IDS = np.arange(NUM_RECORDS)
MODEL = LinearStudent().fit(INPUTS, LABELS, seed=0)


def inputs_with(number: float) -> np.ndarray:
    """Returns the usual inputs with `number` at [7, 2]."""
    inputs = INPUTS.copy()
    inputs[7, 2] = number
    return inputs


STRANGE_INPUTS = {
    "huge": inputs_with(number=1e38),
    "infinite": inputs_with(number=np.inf),
    "nan": inputs_with(number=np.nan),
    "masked": np.ma.masked_all((NUM_RECORDS, 4), np.float32),
    "gradients": torch.tensor(INPUTS, requires_grad=True),
    "no_features": np.zeros((NUM_RECORDS, 0), np.float32),
    "text": np.array([["alice"] * 4] * NUM_RECORDS),
}


def make_split(inputs: Any) -> Split:
    """Makes a split of records with these inputs."""
    return Split(inputs=inputs, labels=LABELS, record_ids=IDS, group_ids=IDS)


def fit_student(inputs: Any) -> StudentModel:
    """Fits a linear student on records with these inputs."""
    return LinearStudent().fit(inputs, LABELS, seed=0)


def make_shard(inputs: Any) -> Shard:
    """Makes the records of one teacher with these inputs."""
    return Shard(inputs=inputs, labels=LABELS)


@pytest.mark.parametrize("kind", STRANGE_INPUTS)
@pytest.mark.parametrize(
    "use_inputs",
    [
        pytest.param(make_split, id="split"),
        pytest.param(fit_student, id="student"),
        pytest.param(MODEL.predict, id="model"),
        pytest.param(make_shard, id="teacher"),
    ],
)
def test_strange_inputs_of_teachers_are_refused(
    use_inputs: Callable[[Any], Any], kind: str
) -> None:
    """Inputs that are huge, masked, text and so on are refused by splits, students, models and shards.

    The refusal is one line, and shows no value.
    """
    with pytest.raises(
        InvalidValue, match=r"^inputs(=\w+|\.\w+=\S+.*|\[7, 2\])?: expected "
    ) as caught:
        use_inputs(STRANGE_INPUTS[kind])
    assert "\n" not in str(caught.value)
    assert "alice" not in str(caught.value)


CLASSES = (INPUTS[:, 0] > 0).astype(int)
PUBLIC_INPUTS = INPUTS + 1


@pytest.mark.parametrize("kind", ["huge", "masked", "gradients", "text"])
@pytest.mark.parametrize("name", ["X", "X_public"])
def test_strange_inputs_of_the_classifier_are_refused(name: str, kind: str) -> None:
    """The classifier refuses strange private and public inputs under the names of its arguments, and shows no value."""
    inputs_by_name = {"X": INPUTS, "X_public": PUBLIC_INPUTS}
    inputs_by_name[name] = STRANGE_INPUTS[kind]
    with pytest.raises(InvalidValue, match=rf"^{name}[=:.\[].*expected ") as caught:
        PATEClassifier(n_teachers=3).fit(
            X=inputs_by_name["X"], y=CLASSES, X_public=inputs_by_name["X_public"]
        )
    assert "alice" not in str(caught.value)


def test_masked_classes_of_the_classifier_are_refused() -> None:
    """The classifier refuses a masked array of classes."""
    masked_classes = np.ma.masked_all(NUM_RECORDS, int)
    with refused_parameter("y", value="MaskedArray"):
        PATEClassifier(n_teachers=3).fit(X=INPUTS, y=masked_classes, X_public=PUBLIC_INPUTS)


def test_an_empty_group_of_the_classifier_is_refused() -> None:
    """The classifier refuses a record whose group is an empty text; the error has its row, and no other group."""
    groups = np.array([*(f"patient-{row // 2}" for row in range(NUM_RECORDS - 1)), ""])
    model = PATEClassifier(n_teachers=3, public_fraction=0.5)
    with refused_parameter("groups[29]", rule_words="a group for") as caught:
        model.fit(X=INPUTS, y=CLASSES, groups=groups)
    assert "patient" not in str(caught.value)


COUNTS = RNG.integers(0, 10, size=(5, 3))
TEACHER_VOTES = RNG.random((10, 5, 3)) < 0.5


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(np.ma.masked_array(COUNTS, mask=COUNTS > 2), id="masked"),
        pytest.param(torch.tensor(COUNTS.astype(float), requires_grad=True), id="gradients"),
        pytest.param(sparse.csr_matrix(COUNTS), id="sparse"),
        pytest.param({}, id="dict"),
        pytest.param("votes", id="text"),
    ],
)
def test_strange_counts_of_votes_are_refused(counts: Any) -> None:
    """An aggregator of counts refuses counts that are masked, sparse, text and so on."""
    aggregator = GaussianVotes(noise_std=3.0)
    with pytest.raises(InvalidValue, match=r"^votes[=.].*: expected "):
        aggregator.aggregate(counts, num_teachers=10, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    "votes",
    [
        pytest.param(np.ma.masked_array(TEACHER_VOTES, mask=TEACHER_VOTES), id="masked"),
        pytest.param(torch.ones(10, 5, 3, requires_grad=True), id="gradients"),
    ],
)
def test_strange_votes_of_teachers_are_refused(votes: Any) -> None:
    """Aggregators of single teachers' votes, and `histogram`, refuse masked votes and tensors with gradients."""
    for aggregator in (
        ClippedVotes(noise_std=3.0, vote_clip=2),
        CenteredVotes(noise_multiplier=3.0),
    ):
        with refused_parameter("votes", value=ANY):
            aggregator.aggregate(votes, num_teachers=10, rng=np.random.default_rng(0))
    with refused_parameter("teacher_votes", value=ANY):
        histogram(votes)


RECORDS = make_split(INPUTS)
DATASET = Dataset(
    name="a",
    real=False,
    kind="features",
    label_names=("a", "b", "c"),
    private=RECORDS.take(slice(10)),
    public=RECORDS.take(slice(10, 20)),
    test=RECORDS.take(slice(20, 30)),
)


@pytest.mark.parametrize(
    ("field_name", "field_value", "refusal"),
    [
        ("name", 3, refused_parameter("name", value="int")),
        ("name", "a\nb", refused_parameter("name", value="'a\\nb'")),
        ("real", "yes", refused_parameter("real", value="str")),
        ("kind", ["features"], refused_parameter("kind", value="['features']")),
        ("label_names", (1, 2, 3), refused_parameter("label_names[0]", value="int")),
        ("label_names", ("a", "", "c"), refused_parameter("label_names[1]", value="''")),
        ("label_names", "abc", refused_parameter("label_names", value="str")),
        ("private", None, refused_parameter("private", value="NoneType")),
    ],
)
def test_strange_fields_of_a_data_set_are_refused(
    field_name: str, field_value: Any, refusal: Refusal
) -> None:
    """A data set with one strange field is refused under the field's name."""
    with refusal:
        replace(DATASET, **{field_name: field_value})


def test_images_beyond_their_range_are_refused() -> None:
    """Images with a value above 1 are refused with the indices of the value."""
    images = np.full((3, 1, 2, 2), 0.5, np.float32)
    images[1, 0, 1, 1] = 1.5
    private, public, test = (
        Split(images, LABELS[:3], record_ids=IDS[:3] + 3 * part, group_ids=IDS[:3] + 3 * part)
        for part in range(3)
    )
    with refused_parameter("private.inputs[1, 0, 1, 1]", rule_words="images with values in [0"):
        Dataset(
            name="a",
            real=False,
            kind="images",
            label_names=("a", "b", "c"),
            private=private,
            public=public,
            test=test,
        )


def test_strange_arguments_of_a_partition_are_refused() -> None:
    """A partition from a list or tensor, and a number in place of a generator, are refused."""
    for teacher_of in ([0, 1], torch.arange(2)):
        with refused_parameter("teacher_of", value=ANY, rule_words="a numpy array"):
            Partition(teacher_of, num_teachers=2)
    with refused_parameter("rng", value=0):
        Partition.draw(IDS, num_teachers=2, rng=0)


WEIGHTS = MODEL.arrays["weights"]
BIAS = MODEL.arrays["bias"]


@pytest.mark.parametrize(
    "arrays",
    [
        pytest.param({}, id="no arrays"),
        pytest.param({"weights": WEIGHTS}, id="no bias"),
        pytest.param({"weights": WEIGHTS[:2], "bias": BIAS}, id="cut weights"),
        pytest.param(
            {"weights": WEIGHTS, "bias": np.full(3, np.nan, np.float32)}, id="nan in the bias"
        ),
        pytest.param({"weights": WEIGHTS.astype(np.float64), "bias": BIAS}, id="float64 weights"),
    ],
)
def test_students_without_their_weights_are_refused(
    arrays: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """A stored linear student is refused if its arrays are missing, cut, of another type or not finite."""
    damaged_model = LinearModel(
        arrays=arrays,
        threshold=0.5,
        input_shape=MODEL.input_shape,
        num_rows=NUM_RECORDS,
        choices={},
    )
    damaged_model.save(tmp_path)
    with refused_parameter("file", value=ANY, rule_words="the weights of"):
        StudentModel.load(tmp_path)


ENORMOUS_INTEGER = 10**400
# A call with an argument of another kind, by the name that the refusal begins with and, where needed, another word.
CALLS: dict[str, Callable[[], Any]] = {
    "targets": lambda: common_target(targets="abc"),
    "target": lambda: best_session_price(target="", target_hits=3, target_delta=1e-6),
    "aggregator": lambda: counts_for(aggregator=-np.inf, blocks=[LABELS[None]]),
    "mechanism": lambda: SparseVectorSession(mechanism=3.5, num_units=4),
    "session": lambda: ConditionalRelease(session=b"x"),
    "mechanism of two": lambda: RunTwice([]),
    "table": lambda: StableTopK(selection_scale=2.0, table=print),
    "round_size": lambda: BoundaryMax(round_size=np.ones((2, 2), bool), selection_scale=2.0),
    "adjacency": lambda: PeelingTopK(k=2, epsilon=1.0, adjacency=np.ones((2, 2), bool)),
    "threshold_share": lambda: ConfidentVotes(
        screening_std=3.0, threshold_share=ENORMOUS_INTEGER, noise_std=3.0
    ),
    "noise_multiplier": lambda: GaussianEvent(noise_multiplier=ENORMOUS_INTEGER),
    "epsilon": lambda: BoundedRangeEvent(epsilon=ENORMOUS_INTEGER),
    "mu": lambda: gaussian_delta(mu=ENORMOUS_INTEGER, epsilon=1.0),
    "logits": lambda: OneBitEvent(logits={"a": 1}, reach=3),
    "pass_probs": lambda: StabilityTest(pass_probs=ENORMOUS_INTEGER, failure_prob=1e-9),
    "distributions": lambda: boundary_distribution(distributions=ENORMOUS_INTEGER),
    "first_law": lambda: exact_hit_prob(
        first_law=ENORMOUS_INTEGER, second_law=[1.0], in_target=[True], epsilon=0.5
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_another_kind_are_refused(name: str) -> None:
    """A call with an argument of another kind, or with the number 10^400, is refused in one line under its name."""
    with pytest.raises(
        InvalidValue, match=rf"^{name.split()[0]}\S*=.*: expected |^{name}: expected "
    ) as caught:
        CALLS[name]()
    assert "\n" not in str(caught.value)


def test_prices_beyond_all_floats_are_infinite() -> None:
    """An epsilon and a zCDP price that exceed all floats are infinite."""
    assert gaussian_epsilon(mu=1e308, target_delta=1e-6) == np.inf
    assert SubsetPeeling(noise_scale=1e-300).event.rho == np.inf
