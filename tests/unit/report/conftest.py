"""One small run for tests: a report in which few numbers are equal, and the arrays behind its pictures."""

import numpy as np
import pytest

from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.aggregators import Aggregator
from pate.report import Privacy, Report, Scores, per_label_metrics
from pate.report.membership import Membership
from pate.report.picture_arrays import PictureArrays
from pate.report.precision_recall import PrecisionRecall
from pate.report.report import DataSummary, ReleaseSummary, TeacherSummary, keys_no_epsilon_covers
from pate.report.verdict import Baselines, StudentVerdict

STUDENT_SCORES = Scores(
    accuracy=0.91371,
    balanced_accuracy=0.65372,
    micro_f1=0.38373,
    macro_f1=0.25374,
    mean_average_precision=0.31375,
)
BASELINES = Baselines(
    prior=Scores(
        accuracy=0.89271,
        balanced_accuracy=0.50072,
        micro_f1=0.20873,
        macro_f1=0.03674,
        mean_average_precision=0.11675,
    ),
    best_constant=Scores(
        accuracy=0.85271,
        balanced_accuracy=0.50172,
        micro_f1=0.44873,
        macro_f1=0.08374,
        mean_average_precision=0.11675,
    ),
    majority_vote_student=Scores(
        accuracy=0.92471,
        balanced_accuracy=0.66472,
        micro_f1=0.48473,
        macro_f1=0.35474,
        mean_average_precision=0.41475,
    ),
    true_label_student=Scores(
        accuracy=0.93571,
        balanced_accuracy=0.67572,
        micro_f1=0.58573,
        macro_f1=0.45574,
        mean_average_precision=0.51575,
    ),
    all_records_model=Scores(
        accuracy=0.94671,
        balanced_accuracy=0.74672,
        micro_f1=0.69673,
        macro_f1=0.57674,
        mean_average_precision=0.61675,
    ),
    start_alone=Scores(
        accuracy=0.91277,
        balanced_accuracy=0.63478,
        micro_f1=0.45679,
        macro_f1=0.32476,
        mean_average_precision=0.38574,
    ),
)


NUM_PRICED_QUERIES = 6
GAP_PASSED_WITH_50_PERCENT = 138.0
GAP_PASSED_WITH_95_PERCENT = 224.0
PRIVACY = Privacy(
    epsilon=7.9912,
    delta=1e-6,
    adjacency="replace_one",
    unit="one family of glosses",
    accountant="rdp",
    mechanism="stable_top_k_table",
    num_queries=NUM_PRICED_QUERIES,
    paper_epsilon=3.6552,
    failure_prob=6e-7,
    gap_at_50=GAP_PASSED_WITH_50_PERCENT,
    gap_at_95=GAP_PASSED_WITH_95_PERCENT,
    parameters={"selection_noise": "gumbel", "selection_scale": 39.5, "test": "table"},
)
REASON_BY_UNCOVERED_REPORT_KEY = keys_no_epsilon_covers(BASELINES)

REPORT = Report(
    privacy=PRIVACY,
    release=ReleaseSummary(
        num_queries=6, num_answered=3, answer_rate=0.5, label_accuracy=0.93127, micro_f1=0.61238
    ),
    teachers=TeacherSummary(num_teachers=411, mean_accuracy=0.88123, records_per_teacher=155.27),
    student=STUDENT_SCORES,
    baselines=BASELINES,
    not_covered=REASON_BY_UNCOVERED_REPORT_KEY,
    verdict=StudentVerdict.from_scores(
        STUDENT_SCORES, BASELINES, num_answered=3, remedy_of_cause=Aggregator.remedies
    ),
    intervals={"student": {"accuracy": (0.9011, 0.9222), "micro_f1": (0.3611, 0.4022)}},
    data=DataSummary(
        name="wordnet",
        real=True,
        num_private=62115,
        num_public=10001,
        num_test=9973,
        num_labels=4,
        label_cardinality=1.4471,
    ),
    seed=None,
    versions={"pate": "0.1.0", "numpy": "2.0.0"},
    duration_s=123.456,
    data_dependent=DataDependentEpsilon(value=0.61, delta=1e-6),
    membership=Membership(
        fpr=(0.001, 0.01),
        tpr=(0.0, 0.011),
        low=(0.0, 0.007),
        high=(0.002, 0.013),
        num_private=9000,
        num_test=9973,
        tpr_by_reference=(0.001, 0.012),
    ),
)


@pytest.fixture(scope="session")
def privacy() -> Privacy:
    """Returns the price of the small run."""
    return PRIVACY


@pytest.fixture(scope="session")
def report() -> Report:
    """Returns the report of the small run."""
    return REPORT


@pytest.fixture(scope="session")
def picture_arrays() -> PictureArrays:
    """Returns the arrays behind the pictures of the small run."""
    rng = np.random.default_rng(0)
    true_labels = rng.random((50, 4)) < [0.6, 0.4, 0.2, 0.1]
    scores = 0.5 * true_labels + 0.6 * rng.random((50, 4))
    answered = np.array([True, False, True, True, False, False])
    labels = np.eye(6, 4, dtype=bool) & answered[:, None]
    epsilon_after_query = np.linspace(1.2, 7.9912, 6)
    gaps = np.array([300, 20, 250, 310, 90, 120])
    vote_counts = rng.integers(0, 412, size=(6, 4))
    pass_gaps = np.arange(0, 412)
    pass_probability = np.linspace(0, 1, 412)
    loss_by_epoch = np.array([0.9, 0.5, 0.3])
    constant_prediction = np.eye(4)[0] > 0
    return PictureArrays(
        label_names=("person", "artifact", "animal", "tree"),
        answered=answered,
        labels=labels,
        epsilon_after_query=epsilon_after_query,
        gaps=gaps,
        vote_counts=vote_counts,
        num_teachers=411,
        pass_gaps=pass_gaps,
        pass_probability=pass_probability,
        per_label={
            "student": per_label_metrics(
                predicted_labels=scores > 0.5, scores=scores, true_labels=true_labels
            ),
            "majority_vote_student": per_label_metrics(
                predicted_labels=scores > 0.4, scores=scores, true_labels=true_labels
            ),
            "all_records_model": per_label_metrics(
                predicted_labels=true_labels,
                scores=true_labels + 0.1 * scores,
                true_labels=true_labels,
            ),
        },
        precision_recall=PrecisionRecall.from_scores(
            scores,
            predicted_labels=scores > 0.5,
            true_labels=true_labels,
            constant_labels=constant_prediction,
            threshold=0.5,
        ),
        student_curve={"loss": loss_by_epoch},
    )
