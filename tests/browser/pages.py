"""Renders pages of made-up runs and comparisons: usual ones, empty ones, and ones with hostile names."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from pate.comparison import Frontier, Run
from pate.comparison.page import render_page
from pate.comparison.runs import METRIC_KEYS
from pate.report import Report, Scores
from pate.report.page import render_html
from pate.report.picture_arrays import PictureArrays
from pate.report.precision_recall import PrecisionRecall
from pate.report.report import DataSummary, Heading, ReleaseSummary
from pate.report.verdict import Baselines, StudentVerdict
from tests.unit.report.conftest import REPORT

HOSTILE = (
    '"><script>document.title = "taken"</script><img '
    'src="http://example.org/x.png" onerror="alert(1)">$title{&amp;'
)
LONG = "a_label_whose_name_is_a_sentence_that_its_author_never_thought_anybody_would_have_to_print_somewhere"
NUM_TEACHERS = 400
LABEL_METRICS = (
    "prevalence",
    "precision",
    "recall",
    "f1",
    "balanced_accuracy",
    "average_precision",
)


def usual_report(num_labels: int, num_queries: int, num_answered: int) -> Report:
    """Returns the report of a run with a price and with scores of the student and the five baselines."""
    privacy = replace(
        REPORT.privacy,
        unit="one group of private records (one record where groups are single) replaced by another",
        mechanism="StableTopK",
        num_queries=num_queries,
        parameters={
            "selection_noise": "gumbel",
            "selection_scale": 49.11848119717984,
            "failure_prob": 1e-9,
        },
    )
    rate = num_answered / max(num_queries, 1)
    return replace(
        REPORT,
        privacy=privacy,
        release=ReleaseSummary(
            num_queries, num_answered, answer_rate=rate, label_accuracy=0.946, micro_f1=0.739
        ),
        baselines=replace(
            REPORT.baselines,
            true_label_student=Scores(
                accuracy=1.0,
                balanced_accuracy=1.0,
                micro_f1=1.0,
                macro_f1=1.0,
                mean_average_precision=None,
            ),
        ),
        verdict=StudentVerdict(
            share_of_reachable=0.5,
            beats_constant=True,
            beats_prior=False,
            text="Reached 50% of the reachable mean average precision.",
        ),
        intervals={name: dict.fromkeys(METRIC_KEYS, (0.3, 0.4)) for name in ("student", "prior")},
        data=replace(REPORT.data, num_labels=num_labels),
        heading=Heading(
            aggregator_name="stable_top_k_table", given={"target_epsilon": "8", "data": LONG}
        ),
    )


def usual_figures(names: tuple[str, ...], num_queries: int, num_answered: int) -> PictureArrays:
    """Returns the arrays from which the pictures of a run as in `usual_report` are drawn."""
    rng = np.random.default_rng(0)
    num_labels = len(names)
    prevalence = np.linspace(0.6, 0.05, num_labels)
    answered = np.arange(num_queries) < num_answered
    votes = rng.binomial(NUM_TEACHERS, rng.permuted(np.tile(prevalence, (num_queries, 1)), axis=1))
    return PictureArrays(
        label_names=names,
        answered=rng.permutation(answered),
        labels=rng.random((num_queries, num_labels)) < prevalence,
        epsilon_after_query=np.linspace(2.8, 7.9912, num_queries),
        gaps=rng.integers(0, NUM_TEACHERS, size=num_queries),
        gap_name="largest gap",
        vote_counts=votes,
        num_teachers=NUM_TEACHERS,
        pass_gaps=np.arange(NUM_TEACHERS + 1),
        pass_probability=np.linspace(0, 1, NUM_TEACHERS + 1),
        per_label={
            model: {name: np.linspace(top, 0, num_labels) for name in LABEL_METRICS}
            for model, top in (
                ("student", 0.7),
                ("majority_vote_student", 0.8),
                ("all_records_model", 1.0),
            )
        },
        precision_recall=PrecisionRecall(
            recall=np.linspace(0, 1, 50),
            precision=np.linspace(1, 0.1, 50),
            chosen=(0.5, 0.55),
            constant=(0.4, 0.3),
            threshold=tuple(np.linspace(0.1, 1, num_labels).tolist()),
        ),
        student_curve={
            "loss": np.geomspace(0.9, 0.1, 12),
            "learning rate": np.linspace(0.1, 0.0, 12),
        },
    )


def finished() -> str:
    """Returns the HTML page of a usual run with 40 labels and 207 of 600 queries answered."""
    return render_html(
        usual_report(num_labels=40, num_queries=600, num_answered=207),
        usual_figures(
            names=tuple(f"label_{index}" for index in range(40)), num_queries=600, num_answered=207
        ),
    )


def nothing_answered() -> str:
    """Returns the HTML page of a run whose queries were all refused: it has no student, and no score of its labels."""
    release = ReleaseSummary(
        num_queries=600, num_answered=0, answer_rate=0.0, label_accuracy=None, micro_f1=None
    )
    report = replace(
        usual_report(num_labels=2, num_queries=600, num_answered=0), release=release, student=None
    )
    picture_arrays = replace(
        usual_figures(names=("person", "tree"), num_queries=600, num_answered=0),
        per_label={},
        student_curve={},
    )
    return render_html(report, picture_arrays)


def halted() -> str:
    """Returns the HTML page of a session that used up its hits, the calls that count, after half of the queries.

    The noise is seeded, the data are synthetic, and the names of labels and data are long.
    """
    release = ReleaseSummary(
        num_queries=600,
        num_answered=90,
        answer_rate=0.15,
        label_accuracy=0.9,
        micro_f1=0.6,
        num_hits=90,
        remaining_hits=0,
        num_abstained=0,
        num_asked=311,
    )
    report = usual_report(num_labels=40, num_queries=600, num_answered=90)
    charged = replace(report.privacy, target_hits=90, plain_epsilon=31.4, noise_seeded=True)
    report = replace(
        report,
        seed=7,
        release=release,
        data=DataSummary(
            name=LONG,
            real=False,
            num_private=9,
            num_public=9,
            num_test=9,
            num_labels=40,
            label_cardinality=4.46,
        ),
        privacy=charged,
    )
    names = tuple(f"{LONG}_{index}" for index in range(40))
    picture_arrays = replace(
        usual_figures(names, num_queries=600, num_answered=90),
        pass_gaps=None,
        pass_probability=None,
    )
    return render_html(report, picture_arrays)


def no_guarantee() -> str:
    """Returns the HTML page of a run without noise or price: one label, three queries, one epoch, no baseline."""
    report = usual_report(num_labels=1, num_queries=3, num_answered=2)
    unpriced = replace(
        report.privacy,
        epsilon=np.inf,
        paper_epsilon=None,
        failure_prob=None,
        gap_at_50=None,
        gap_at_95=None,
    )
    report = replace(
        report,
        baselines=Baselines(
            prior=None,
            best_constant=None,
            majority_vote_student=None,
            true_label_student=None,
            all_records_model=None,
        ),
        privacy=unpriced,
    )
    picture_arrays = replace(
        usual_figures(names=("only",), num_queries=3, num_answered=2),
        epsilon_after_query=np.full(3, np.inf),
        student_curve={"loss": np.array([0.3])},
    )
    return render_html(report, picture_arrays)


def hostile() -> str:
    """Returns the HTML page of a run in which HTML markup stands for every text that a user can choose."""
    report = usual_report(num_labels=3, num_queries=20, num_answered=10)
    privacy = replace(
        report.privacy,
        unit=HOSTILE,
        mechanism=HOSTILE,
        parameters={HOSTILE: HOSTILE},
        accountant=HOSTILE,
    )
    report = replace(
        report,
        versions={HOSTILE: HOSTILE},
        heading=Heading(aggregator_name=HOSTILE, given={HOSTILE: HOSTILE}),
        privacy=privacy,
        data=replace(report.data, name=HOSTILE),
    )
    picture_arrays = replace(
        usual_figures(names=(HOSTILE, "<b>bold</b>", "&lt;"), num_queries=20, num_answered=10),
        gap_name=HOSTILE,
        student_curve={HOSTILE: np.ones(3)},
    )
    return render_html(report, picture_arrays)


def usual_frontier(names: tuple[str, ...], epsilons: tuple[float, ...]) -> Frontier:
    """Returns a comparison of the methods in `names`, whose scores rise with epsilon, each from another start.

    If there are more than two methods, the last has no scores.
    """
    runs = [
        _run_of(aggregator="prior", score=0.1),
        _run_of(aggregator="best_constant", score=0.2),
        _run_of(aggregator="true_label_student", score=0.58),
        _run_of(aggregator="all_records_model", score=0.6),
        replace(
            _run_of(aggregator="majority_vote_student", score=0.55),
            teacher="linear",
            num_teachers=NUM_TEACHERS,
        ),
    ]
    for place, name in enumerate(names):
        for index, epsilon in enumerate(epsilons):
            missing = name == names[-1] and len(names) > 2
            value = None if missing else 0.58 - 0.5 / (1 + place) / (1 + index)
            note = "target_epsilon: expected more" if missing else ""
            run = replace(
                _run_of(aggregator=name, score=value),
                note=note,
                teacher="kernel",
                student="low_rank",
                num_teachers=61_629,
            )
            runs += [
                replace(
                    run,
                    seed=seed,
                    adjacency="replace_one",
                    delta=1e-6,
                    accountant="pld",
                    epsilon=epsilon,
                )
                for seed in range(2)
            ]
    return Frontier(runs=tuple(runs), num_test=10_000, dataset="wordnet")


def two_entrants() -> str:
    """Returns the HTML page that compares two aggregators at one epsilon."""
    parameter_texts = {name: [(1.0, "noise_std 3.14159")] for name in ("early", "late")}
    return render_page(
        usual_frontier(names=("early", "late"), epsilons=(1.0,)),
        parameter_texts_by_method=parameter_texts,
    )


def fifteen_entrants() -> str:
    """Returns the HTML page that compares fifteen aggregators with long names at seven epsilons."""
    names = tuple(f"stable_top_k_not_prior_{index}" for index in range(15))
    epsilons = (0.1, 0.25, 0.5, 1.0, 2.0, 3.6, 8.0)
    solved = (
        "prior_scale 407.7, selection_scale 505.469, table_order 43.3374, table_budget 0.000338697"
    )
    parameter_texts = {
        f"{name}@1000": [(epsilon, solved) for epsilon in epsilons[:2]] for name in names
    }
    return render_page(usual_frontier(names, epsilons), parameter_texts_by_method=parameter_texts)


def hostile_entrants() -> str:
    """Returns the HTML page of a comparison in which aggregators and data set have HTML markup as names."""
    frontier = replace(
        usual_frontier(names=(HOSTILE, LONG, "out of reach"), epsilons=(1.0, 1.01, 1.02, 8.0)),
        dataset=HOSTILE,
        real=False,
    )
    return render_page(frontier, parameter_texts_by_method={HOSTILE: [(1.0, HOSTILE)]})


def _run_of(aggregator: str, score: float | None) -> Run:
    """Returns a run of an aggregator whose scores are all `score`, which is None for a run that failed."""
    num_answered = None if score is None else 300
    scores = dict.fromkeys(METRIC_KEYS, score)
    return Run(aggregator=aggregator, num_queries=600, num_answered=num_answered, **scores)


_ALL = (
    finished,
    nothing_answered,
    halted,
    no_guarantee,
    hostile,
    two_entrants,
    fifteen_entrants,
    hostile_entrants,
)
PAGES: dict[str, Callable[[], str]] = {page.__name__: cache(page) for page in _ALL}
"""Each page by its name, rendered on the first request."""
