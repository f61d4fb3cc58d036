"""Kernel teachers, whose votes are computed by hand, and the student that knows the noise of the released scores.

The vote of a kernel teacher, which is not trained, is the sum, over its records, of (label - prevalence) times the
similarity of record and query.
"""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import f1_score

from pate.aggregators.training_set import NoisyScores
from pate.data import Partition, Split
from pate.models import KernelTeacher, LowRankStudent, StudentModel, kernel_votes
from pate.models.released_model import ReleasedModel
from pate.validation import InvalidValue
from pate.votes.public_pca import PublicPCA
from tests.refusals import refused_parameter

RNG = np.random.default_rng(0)
PUBLIC_INPUTS = RNG.normal(size=(300, 6)).astype(np.float32)
INPUTS = RNG.normal(size=(50, 6)).astype(np.float32)
LABELS = RNG.random((50, 3)) < 0.4
PREVALENCE = np.array([0.4, 0.3, 0.5])
NUM_PRINCIPAL_DIRECTIONS = 4
DIRECTIONS = PublicPCA.fit(PUBLIC_INPUTS, max_directions=NUM_PRINCIPAL_DIRECTIONS)


def split_of_records(inputs, labels):
    """Returns a split in which each record is its own group."""
    return Split(
        inputs=inputs,
        labels=labels,
        record_ids=np.arange(len(labels)),
        group_ids=np.arange(len(labels)),
    )


PUBLIC_SPLIT = split_of_records(inputs=PUBLIC_INPUTS, labels=np.zeros((300, 3), bool))


def vote_blocks(teacher_of, num_teachers, labels=LABELS):
    """Returns the blocks of kernel teachers' votes around fixed prevalences.

    Args:
        teacher_of: the teacher of each of the 50 records.
        num_teachers: the number of teachers.
        labels: the labels of the records.
    """
    source = kernel_votes.KernelVotes(
        private_split=split_of_records(inputs=INPUTS, labels=labels),
        num_public_directions=NUM_PRINCIPAL_DIRECTIONS,
        teacher_of=teacher_of,
        num_teachers=num_teachers,
        public_split=PUBLIC_SPLIT,
        num_queries=20,
    )
    return list(source.votes_around(PREVALENCE, noise_multiplier=1.0))


@pytest.mark.parametrize(
    ("num_teachers", "refusal"),
    [
        (49, refused_parameter("num_teachers", value=49)),
        (51, refused_parameter("teacher", value=50)),
    ],
)
def test_every_teacher_has_a_record_and_every_record_a_teacher(num_teachers, refusal):
    """50 records of 50 teachers are refused if the number of teachers is given as 49 or as 51."""
    with refusal:
        vote_blocks(teacher_of=np.arange(50), num_teachers=num_teachers)


def test_the_vote_of_one_record_is_its_residual_times_its_similarity():
    """The vote of a teacher with one record is its labels minus the prevalence, times its similarity to each query.

    The vote is as long as the labels minus the prevalence, times the root of the number of queries.
    """
    (block,) = vote_blocks(teacher_of=np.arange(50), num_teachers=50)
    features = DIRECTIONS.features(INPUTS)
    residual = LABELS - PREVALENCE
    # Votes on 20 queries are multiplied by sqrt(20), so that they are as long as the residuals.
    expected = (
        np.sqrt(20)
        * (DIRECTIONS.span(PUBLIC_INPUTS[:20]) @ features.T).T[:, :, None]
        * residual[:, None, :]
    )
    votes_on_queries = block.span @ block.weights
    np.testing.assert_allclose(votes_on_queries, expected)
    lengths_of_votes = np.linalg.norm(votes_on_queries, axis=(1, 2))
    np.testing.assert_allclose(lengths_of_votes, np.sqrt(20) * np.linalg.norm(residual, axis=1))


def test_projected_votes_sum_to_the_sum_over_records():
    """The sum of votes on queries, projected to weights of features, is a sum over records.

    Each record adds its features times (label - prevalence). Votes and their weights have equal lengths. Noise on the
    queries becomes noise of the same standard deviation on the weights.
    """
    (block,) = vote_blocks(teacher_of=np.arange(50), num_teachers=50)
    span = DIRECTIONS.span(PUBLIC_INPUTS[:20])
    sum_over_records = DIRECTIONS.features(INPUTS).T @ (LABELS - PREVALENCE)
    votes_on_queries = block.span @ block.weights
    np.testing.assert_allclose(
        span.T @ votes_on_queries.sum(axis=0) / np.sqrt(20),
        sum_over_records,
        atol=1e-10,
    )
    np.testing.assert_allclose(
        np.linalg.norm(votes_on_queries, axis=(1, 2)),
        np.linalg.norm(block.weights, axis=(1, 2)),
    )
    noise = np.random.default_rng(1).normal(size=(4000, 20, 3))
    projected_noise = span.T @ noise
    assert projected_noise.std() == pytest.approx(1, abs=0.01)
    assert abs(np.corrcoef(projected_noise.reshape(4000, -1).T)[0, 1:]).max() < 0.06


def test_votes_of_a_teacher_depend_on_its_own_records_alone():
    """If the labels of one record change, only the vote of the teacher with this record changes."""
    (block,) = vote_blocks(teacher_of=np.arange(50) % 10, num_teachers=10)
    changed_labels = LABELS.copy()
    changed_labels[3] = ~changed_labels[3]
    (changed_block,) = vote_blocks(
        teacher_of=np.arange(50) % 10, num_teachers=10, labels=changed_labels
    )
    changed_teachers = np.flatnonzero((block.weights != changed_block.weights).any(axis=(1, 2)))
    assert changed_teachers.tolist() == [3]


def test_private_inputs_are_read_a_block_at_a_time(monkeypatch):
    """Votes of 50 private records are the same if the records are read in blocks of 20, 20 and 10."""
    block_sizes = []
    compute_features = PublicPCA.features

    def count_and_compute_features(public_pca, inputs):
        block_sizes.append(len(inputs))
        return compute_features(public_pca, inputs)

    (unblocked,) = vote_blocks(teacher_of=np.arange(50) % 7, num_teachers=7)
    monkeypatch.setattr(kernel_votes, "_BLOCK_RECORDS", 20)
    monkeypatch.setattr(PublicPCA, "features", count_and_compute_features)
    (blocked,) = vote_blocks(teacher_of=np.arange(50) % 7, num_teachers=7)
    assert block_sizes[-3:] == [20, 20, 10]  # the calls before these three are for the queries
    np.testing.assert_allclose(blocked.weights, unblocked.weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("group_sizes", "expected"),
    [([3] * 40, 3.0), ([1, 5] * 20, 3.0), ([1000], 1.0), ([1] * 5, 1.0)],
)
def test_records_per_group_are_estimated_from_the_public_pool(group_sizes, expected):
    """The number of records per group is the mean size of the public groups, and 1 if there are fewer than 30 groups.

    A group is all records of one unit of privacy, such as a person.
    """
    group_ids = np.repeat(np.arange(len(group_sizes)), group_sizes)
    num_records = len(group_ids)
    public_split = Split(
        inputs=np.zeros((num_records, 2), np.float32),
        labels=np.zeros((num_records, 1), bool),
        record_ids=np.arange(num_records),
        group_ids=group_ids,
    )
    assert kernel_votes.records_per_group(public_split) == expected


@pytest.mark.parametrize(
    ("group_sizes", "weights_of_groups"),
    [([1, 5] * 20, [1, 0.2] * 20), ([1] * 40, None), ([2] * 29, None), ([2] * 30, [0.5] * 30)],
)
def test_public_groups_count_alike_from_thirty_groups_on(group_sizes, weights_of_groups):
    """The weight of a public row is 1 divided by the number of rows of its group.

    There are no weights if each group has one row, or if there are fewer than 30 groups.
    """
    weights = kernel_votes.weights_of_rows(
        group_ids=np.repeat(np.arange(len(group_sizes)), group_sizes)
    )
    if weights_of_groups is None:
        assert weights is None
    else:
        np.testing.assert_array_equal(weights, np.repeat(weights_of_groups, group_sizes))


@pytest.mark.parametrize(("num_teachers", "is_weighted"), [(50, True), (25, False)])
def test_public_groups_count_alike_where_a_teacher_is_a_group(num_teachers, is_weighted):
    """Public rows are weighted by the sizes of their groups if each teacher has one private group, and not if two."""
    public_split = Split(
        inputs=PUBLIC_INPUTS,
        labels=PUBLIC_SPLIT.labels,
        record_ids=np.arange(300),
        group_ids=np.arange(300) // 2,
    )
    source = kernel_votes.KernelVotes(
        private_split=split_of_records(inputs=INPUTS, labels=LABELS),
        teacher_of=np.arange(50) % num_teachers,
        num_teachers=num_teachers,
        public_split=public_split,
        num_queries=20,
    )
    public_row_weights = source.in_rounds(noise_multiplier=1.0).public_row_weights
    assert (public_row_weights is not None) == is_weighted


STUDENT_RNG = np.random.default_rng(0)
POOL = STUDENT_RNG.normal(size=(2000, 12)).astype(np.float32)
TRUE_WEIGHTS = STUDENT_RNG.normal(size=(12, 2)) @ STUDENT_RNG.normal(size=(2, 10))  # rank 2
TRUE_OUTPUTS = POOL @ TRUE_WEIGHTS
TRUE_LABELS = np.greater(TRUE_OUTPUTS, np.quantile(TRUE_OUTPUTS, 0.8, axis=0))
LABEL_SHARES = TRUE_LABELS.mean(axis=0)
QUERY_INPUTS = POOL[:300]
TRUE_SCORES = 0.1 * TRUE_OUTPUTS[:300]


def fitted_model(scores, noise_std=0.5, prevalence=LABEL_SHARES):
    """Returns the low-rank student of released scores with Gaussian noise."""
    return LowRankStudent().fit_scores(
        QUERY_INPUTS,
        released=NoisyScores(values=scores, noise_std=noise_std, prevalence=prevalence),
        pool=POOL,
    )


def micro_f1(model):
    """Returns the micro F1 of a model on the public rows after the first 300, which are the queries."""
    return f1_score(TRUE_LABELS[300:], model.predict(POOL[300:]), average="micro")


def test_pure_noise_predicts_no_rare_label():
    """If the released scores are noise alone, the student has rank 0 and predicts no label."""
    noise = np.random.default_rng(1).normal(size=(300, 10))
    model = fitted_model(scores=noise, noise_std=2.0)
    assert model.choices["rank"] == 0
    assert not model.predict(POOL).any()
    assert np.isfinite(model.predict_proba(POOL)).all()


def test_a_low_rank_student_learns_from_bits(tmp_path):
    """A low-rank student learns labels from released bits with a micro F1 above 0.7.

    The model is read as it was written, and reports its loss.
    """
    student = LowRankStudent()
    model = student.fit(QUERY_INPUTS, labels=TRUE_LABELS[:300], seed=0)
    assert micro_f1(model=model) > 0.7
    model.save(tmp_path)
    loaded = StudentModel.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(POOL), model.predict_proba(POOL))
    assert type(loaded) is type(model)
    losses = []

    def append_loss(_epoch, losses_by_name):
        losses.append(losses_by_name["loss"])

    student.fit(QUERY_INPUTS, labels=TRUE_LABELS[:300], seed=0, on_epoch=append_loss)
    assert 0 < losses[0] < 0.2


@pytest.mark.parametrize(
    ("nonlinear", "noise_multiplier", "kind"),
    [
        (None, 0.05, "released_kernel"),
        (None, 0.3, "released"),
        (True, 0.3, "released_kernel"),
        (False, 0.05, "released"),
    ],
)
def test_a_released_model_has_the_directions_that_teachers_voted_in(
    nonlinear, noise_multiplier, kind
):
    """A model that is built from weights and public inputs uses the directions of the rounds in which teachers voted.

    The setting `nonlinear` decides whether they include those of a kernel. If it is None, the noise decides. From the
    number of weights, the model finds whether they do, which its `kind` shows.
    """
    dataset = SimpleNamespace(
        private=split_of_records(inputs=INPUTS, labels=LABELS), public=PUBLIC_SPLIT
    )
    source = KernelTeacher(nonlinear=nonlinear).votes_of(
        dataset, partition=Partition(teacher_of=np.arange(50), num_teachers=50), num_queries=300
    )
    votes_in_rounds = source.in_rounds(noise_multiplier=noise_multiplier)
    weights = np.random.default_rng(3).normal(size=(votes_in_rounds.num_features, 3))
    model = ReleasedModel.from_weights(weights, public_inputs=PUBLIC_INPUTS, num_rows=300)
    assert model.kind == kind
    logits = votes_in_rounds.public_pca.with_constant(INPUTS) @ weights
    np.testing.assert_allclose(model.predict_proba(INPUTS), 1 / (1 + np.exp(-logits)), atol=1e-4)


@pytest.mark.parametrize(
    ("num_principal_directions", "least_directions", "width"),
    [
        (None, 0, 1),
        (None, 5, 5),
        (None, 9, 7),  # all 6 directions and the height, but no kernel
        (None, 1000, 7),
        (3, 5, 3),
    ],
)
def test_rounds_keep_the_required_directions_with_much_noise(
    num_principal_directions, least_directions, width
):
    """Rounds keep `least_directions` directions at a noise that affords only one, unless a number is set.

    No rounds have more than all linear directions and the height (the feature for the length of an input). `width`
    counts both.
    """
    dataset = SimpleNamespace(
        private=split_of_records(inputs=INPUTS, labels=LABELS), public=PUBLIC_SPLIT
    )
    source = KernelTeacher(num_directions=num_principal_directions).votes_of(
        dataset, partition=Partition(teacher_of=np.arange(50), num_teachers=50), num_queries=300
    )
    votes_in_rounds = source.in_rounds(noise_multiplier=1e3, least_directions=least_directions)
    assert votes_in_rounds.public_pca.width == width
    assert votes_in_rounds.public_pca.kernel is None


@pytest.mark.parametrize(
    ("fit_model", "name"),
    [
        pytest.param(
            partial(fitted_model, scores=TRUE_SCORES, noise_std=-1.0), "noise_std", id="noise"
        ),
        pytest.param(
            partial(fitted_model, scores=TRUE_SCORES, prevalence=LABEL_SHARES[:3]),
            "prevalence",
            id="prevalence",
        ),
        pytest.param(
            partial(fitted_model, scores=np.full((300, 10), np.inf)), "scores", id="scores"
        ),
    ],
)
def test_impossible_scores_are_refused(fit_model, name):
    """Negative noise, prevalences of another length and infinite scores are refused."""
    with pytest.raises(InvalidValue, match=rf"^{name}"):
        fit_model()
