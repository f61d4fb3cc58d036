"""One small run: a report whose every number is its own, and the arrays behind its pictures."""

import numpy as np
import pytest

from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.aggregators import Aggregator
from pate.report import Privacy, Report, Scores, per_label_metrics
from pate.report.figures import RunFigures
from pate.report.membership import Membership
from pate.report.precision_recall import PrecisionRecall
from pate.report.report import DataSummary, ReleaseSummary, TeacherSummary
from pate.report.verdict import Baselines, StudentVerdict

STUDENT = Scores(0.91371, 0.65372, 0.38373, 0.25374, 0.31375)
BASELINES = Baselines(
    prior=Scores(0.89271, 0.50072, 0.20873, 0.03674, 0.11675),
    best_constant=Scores(0.85271, 0.50172, 0.44873, 0.08374, 0.11675),
    majority_vote_student=Scores(0.92471, 0.66472, 0.48473, 0.35474, 0.41475),
    true_label_student=Scores(0.93571, 0.67572, 0.58573, 0.45574, 0.51575),
    all_records_model=Scores(0.94671, 0.74672, 0.69673, 0.57674, 0.61675),
)


PRIVACY = Privacy(
    epsilon=7.9912,
    delta=1e-6,
    adjacency="replace_one",
    unit="one family of glosses",
    accountant="rdp",
    mechanism="stable_top_k_table",
    num_queries=6,
    paper_epsilon=3.6552,
    failure_prob=6e-7,
    gap_at_50=138.0,
    gap_at_95=224.0,
    parameters={"selection_noise": "gumbel", "selection_scale": 39.5, "test": "table"},
)
REPORT = Report(
    privacy=PRIVACY,
    release=ReleaseSummary(6, 3, 0.5, 0.93127, 0.61238),
    teachers=TeacherSummary(411, 0.88123, 155.27),
    student=STUDENT,
    baselines=BASELINES,
    verdict=StudentVerdict.from_scores(
        STUDENT, BASELINES, num_answered=3, remedies=Aggregator.remedies
    ),
    intervals={"student": {"accuracy": (0.9011, 0.9222), "micro_f1": (0.3611, 0.4022)}},
    data=DataSummary("wordnet", True, 62115, 10001, 9973, 4, 1.4471),
    seed=None,
    versions={"pate": "0.1.0", "numpy": "2.0.0"},
    duration_s=123.456,
    data_dependent=DataDependentEpsilon(0.61, 1e-6),
    membership=Membership(
        (0.001, 0.01), (0.0, 0.011), (0.0, 0.007), (0.002, 0.013), 9000, 9973, (0.001, 0.012)
    ),
)


@pytest.fixture(scope="session")
def privacy() -> Privacy:
    return PRIVACY


@pytest.fixture(scope="session")
def report() -> Report:
    return REPORT


@pytest.fixture(scope="session")
def figures() -> RunFigures:
    rng = np.random.default_rng(0)
    true = rng.random((50, 4)) < [0.6, 0.4, 0.2, 0.1]
    scores = 0.5 * true + 0.6 * rng.random((50, 4))
    answered = np.array([True, False, True, True, False, False])
    return RunFigures(
        label_names=("person", "artifact", "animal", "tree"),
        answered=answered,
        labels=np.eye(6, 4, dtype=bool) & answered[:, None],
        epsilon_after_query=np.linspace(1.2, 7.9912, 6),
        gaps=np.array([300, 20, 250, 310, 90, 120]),
        histogram=rng.integers(0, 412, size=(6, 4)),
        num_teachers=411,
        pass_gaps=np.arange(0, 412),
        pass_probability=np.linspace(0, 1, 412),
        per_label={
            "student": per_label_metrics(predicted=scores > 0.5, scores=scores, true=true),
            "majority_vote_student": per_label_metrics(
                predicted=scores > 0.4, scores=scores, true=true
            ),
            "all_records_model": per_label_metrics(
                predicted=true, scores=true + 0.1 * scores, true=true
            ),
        },
        precision_recall=PrecisionRecall.from_scores(
            scores, scores > 0.5, true, constant=np.eye(4)[0] > 0, threshold=0.5
        ),
        student_curve={"loss": np.array([0.9, 0.5, 0.3])},
    )
