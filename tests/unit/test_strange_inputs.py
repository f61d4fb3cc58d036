"""What is no array of moderate numbers is refused in a line that names the argument, and none of its values."""

from collections.abc import Callable
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
from pate.validation import InvalidValue
from pate.votes import histogram
from tests.refusals import ANY, Refusal, refused

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((30, 4)).astype(np.float32)
LABELS = RNG.random((30, 3)) < 0.4
IDS = np.arange(30)
TENSOR = torch.tensor(ROWS, requires_grad=True)
MASKED = np.ma.masked_all((30, 4), np.float32)
MODEL = LinearStudent().fit(ROWS, LABELS, seed=0)


STRANGE = {
    **{
        name: np.where(np.arange(120).reshape(30, 4) == 30, np.float32(value), ROWS)
        for name, value in (("huge", 1e38), ("infinite", np.inf), ("nan", np.nan))
    },  # at [7, 2]
    "masked": MASKED,
    "gradients": TENSOR,
    "no_features": np.zeros((30, 0), np.float32),
    "text": np.array([["alice"] * 4] * 30),
}
TAKES: dict[str, Callable[[Any], Any]] = {
    "split": lambda rows: Split(rows, LABELS, record_ids=IDS, group_ids=IDS),
    "student": lambda rows: LinearStudent().fit(rows, LABELS, seed=0),
    "model": MODEL.predict,
    "teacher": lambda rows: Shard(rows, LABELS),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("place", TAKES)
def test_strange_inputs_of_teachers_are_refused(place: str, kind: str) -> None:
    """Inputs that are huge, masked, sparse, text and so on are refused by splits, students, models and shards.

    The refusal is one line, and shows no value.
    """
    with pytest.raises(
        InvalidValue, match=r"^inputs(=\w+|\.\w+=\S+.*|\[7, 2\])?: expected "
    ) as caught:
        TAKES[place](STRANGE[kind])
    assert "\n" not in str(caught.value)
    assert "alice" not in str(caught.value)


@pytest.mark.parametrize("kind", ["huge", "masked", "gradients", "text"])
def test_inputs_of_the_classifier(kind: str) -> None:
    """The classifier refuses strange inputs, public inputs, labels and groups under their names.

    The refusal shows no value.
    """
    model = PATEClassifier(n_teachers=3)
    y = (ROWS[:, 0] > 0).astype(int)
    for inputs, public_inputs, name in (
        (STRANGE[kind], ROWS + 1, "X"),
        (ROWS, STRANGE[kind], "X_public"),
    ):
        with pytest.raises(InvalidValue, match=rf"^{name}[=:.\[].*expected ") as caught:
            model.fit(inputs, y, X_public=public_inputs)
        assert "alice" not in str(caught.value)
    with refused("y", value="MaskedArray"):
        model.fit(ROWS, np.ma.masked_all(30, int), X_public=ROWS + 1)
    groups = np.array([*(f"patient-{row // 2}" for row in range(29)), ""])
    with refused("groups[29]", rule="a group for") as caught:
        PATEClassifier(n_teachers=3, public_fraction=0.5).fit(ROWS, y, groups=groups)
    assert "patient" not in str(caught.value)


VOTES = RNG.integers(0, 10, size=(5, 3))
BITS = RNG.random((10, 5, 3)) < 0.5


def test_counts() -> None:
    """An aggregator of counts refuses masked, sparse and other strange votes."""
    masked = np.ma.masked_array(VOTES, mask=VOTES > 2)
    gradients = torch.tensor(VOTES.astype(float), requires_grad=True)
    for votes in (masked, gradients, sparse.csr_matrix(VOTES), {}, "votes"):
        with pytest.raises(InvalidValue, match=r"^votes[=.].*: expected "):
            GaussianVotes(noise_std=3.0).aggregate(
                votes, num_teachers=10, rng=np.random.default_rng(0)
            )


@pytest.mark.parametrize(
    "votes", [np.ma.masked_array(BITS, mask=BITS), torch.ones(10, 5, 3, requires_grad=True)]
)
def test_votes_of_teachers(votes: Any) -> None:
    """Aggregators of single teachers' votes refuse masked votes and tensors with gradients."""
    for aggregator in (
        ClippedVotes(noise_std=3.0, vote_clip=2),
        CenteredVotes(noise_multiplier=3.0),
    ):
        with refused("votes", value=ANY):
            aggregator.aggregate(votes, num_teachers=10, rng=np.random.default_rng(0))
    with refused("teacher_votes", value=ANY):
        histogram(votes)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"name": 3}, refused("name", value="int")),
        ({"name": "a\nb"}, refused("name", value="'a\\nb'")),
        ({"real": "yes"}, refused("real", value="str")),
        ({"kind": ["features"]}, refused("kind", value="['features']")),
        ({"label_names": (1, 2, 3)}, refused("label_names[0]", value="int")),
        (
            {"label_names": ("a", "", "c")},
            refused("label_names[1]", value="''"),
        ),
        ({"label_names": "abc"}, refused("label_names", value="str")),
        ({"private": None}, refused("private", value="NoneType")),
    ],
)
def test_data_sets(change: dict[str, Any], refusal: Refusal) -> None:
    """A data set with one strange field is refused under its name."""
    split = Split(ROWS, LABELS, record_ids=IDS, group_ids=IDS)
    parts = {
        "private": split.take(slice(10)),
        "public": split.take(slice(10, 20)),
        "test": split.take(slice(20, 30)),
    }
    fields: dict[str, Any] = {
        "name": "a",
        "real": False,
        "kind": "features",
        "label_names": ("a", "b", "c"),
    }
    with refusal:
        Dataset(**(fields | parts | change))


def test_images_are_within_their_range() -> None:
    """Images with a value above 1 are refused with its place."""
    images = np.full((3, 1, 2, 2), 0.5, np.float32)
    images[1, 0, 1, 1] = 1.5
    private, public, test = (
        Split(images, LABELS[:3], record_ids=IDS[:3] + 3 * part, group_ids=IDS[:3] + 3 * part)
        for part in range(3)
    )
    with refused("private.inputs[1, 0, 1, 1]", rule="images with values in [0"):
        Dataset(
            name="a",
            real=False,
            kind="images",
            label_names=("a", "b", "c"),
            private=private,
            public=public,
            test=test,
        )


def test_partitions() -> None:
    """A partition from a list or tensor, and a number in place of a generator, are refused."""
    for teacher_of in ([0, 1], torch.arange(2)):
        with refused("teacher_of", value=ANY, rule="a numpy array"):
            Partition(teacher_of, num_teachers=2)
    with refused("rng", value=0):
        Partition.draw(IDS, num_teachers=2, rng=0)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"weights": MODEL.arrays["weights"]},
        {"weights": MODEL.arrays["weights"][:2], "bias": MODEL.arrays["bias"]},
        {"weights": MODEL.arrays["weights"], "bias": np.full(3, np.nan, np.float32)},
        {"weights": MODEL.arrays["weights"].astype(np.float64), "bias": MODEL.arrays["bias"]},
    ],
)
def test_students_without_their_weights(arrays: Any, tmp_path: Any) -> None:
    """A stored linear student without, with cut, with NaN or with float64 weights is refused."""
    type(MODEL)(arrays, 0.5, MODEL.input_shape, 30, {}).save(tmp_path)
    with refused("file", value=ANY, rule="the weights of"):
        StudentModel.load(tmp_path)


ENORMOUS = 10**400
CALLS: dict[str, Callable[[], Any]] = {
    "targets": lambda: common_target("abc"),
    "target": lambda: best_session_price("", target_hits=3, target_delta=1e-6),
    "aggregator": lambda: counts_for(-np.inf, [LABELS[None]]),
    "mechanism": lambda: SparseVectorSession(mechanism=3.5, num_items=4),
    "session": lambda: ConditionalRelease(session=b"x"),
    "mechanism of two": lambda: RunTwice([]),
    "table": lambda: StableTopK(selection_scale=2.0, table=print),
    "round_size": lambda: BoundaryMax(round_size=np.ones((2, 2), bool), selection_scale=2.0),
    "adjacency": lambda: PeelingTopK(k=2, epsilon=1.0, adjacency=np.ones((2, 2), bool)),
    "threshold_share": lambda: ConfidentVotes(
        screening_std=3.0, threshold_share=ENORMOUS, noise_std=3.0
    ),
    "noise_multiplier": lambda: GaussianEvent(noise_multiplier=ENORMOUS),
    "epsilon": lambda: BoundedRangeEvent(epsilon=ENORMOUS),
    "mu": lambda: gaussian_delta(ENORMOUS, epsilon=1.0),
    "logits": lambda: OneBitEvent({"a": 1}, reach=3),
    "pass_probs": lambda: StabilityTest(pass_probs=ENORMOUS, failure_prob=1e-9),
    "probabilities": lambda: boundary_distribution(ENORMOUS),
    "first": lambda: exact_hit_prob(
        first_law=ENORMOUS, second_law=[1.0], in_target=[True], epsilon=0.5
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_another_kind(name: str) -> None:
    """A call with an argument of another kind is refused in one line under its name."""
    with pytest.raises(
        InvalidValue, match=rf"^{name.split()[0]}\S*=.*: expected |^{name}: expected "
    ) as caught:
        CALLS[name]()
    assert "\n" not in str(caught.value)


def test_prices_beyond_all_numbers() -> None:
    """An epsilon and a zCDP cost beyond all floats are infinite."""
    assert gaussian_epsilon(1e308, target_delta=1e-6) == np.inf
    assert SubsetPeeling(noise_scale=1e-300).event.rho == np.inf
