"""The plots in a run's report are reproducible and small, show odd names as text, and are left out without data."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

from pate.accounting.attack_bounds import AttackBounds
from pate.report import Report
from pate.report.picture_arrays import PictureArrays
from pate.report.precision_recall import PrecisionRecall
from pate.report.run_pictures import (
    answer_bars,
    epsilon_curve,
    gap_histogram,
    label_dots,
    membership_curve,
    pictures,
    score_bars,
    student_curve,
    votes_by_rank,
)
from pate.report.verdict import Baselines


def texts_of_picture(svg: str) -> list[str]:
    """Returns the texts in an SVG picture."""
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    return ["".join(element.itertext()) for element in root.iter() if element.tag == "text"]


@pytest.mark.slow
def test_pictures_are_reproducible_and_change_no_global_state(
    report: Report, picture_arrays: PictureArrays
) -> None:
    """All pictures that are drawn twice are equal, have unique ids, and leave matplotlib's settings as they were.

    All references within a picture have targets.
    """
    before = dict(mpl.rcParams)
    svgs, again = (
        [picture.svg(id_prefix=name) for name, picture in pictures(report, picture_arrays).items()]
        for _ in range(2)
    )
    assert svgs == again and dict(mpl.rcParams) == before
    ids = [name for svg in svgs for name in re.findall(r'\bid="([^"]+)"', svg)]
    assert len(ids) == len(set(ids)) > 50
    for svg in svgs:
        targets = re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg)
        assert set(targets) <= set(re.findall(r'\bid="([^"]+)"', svg))


def test_precision_and_recall_end_at_the_chosen_point() -> None:
    """The curve has scikit-learn's precisions, and points for the threshold and for the constant prediction.

    If every true label is False, there is no curve.
    """
    rng = np.random.default_rng(0)
    true_labels = rng.random((300, 3)) < 0.3
    scores = rng.random((300, 3)) + 0.5 * true_labels
    constant_prediction = np.array([True, False, False])
    curve = PrecisionRecall.from_scores(
        scores,
        predicted_labels=scores >= 0.8,
        true_labels=true_labels,
        constant_labels=constant_prediction,
        threshold=0.8,
    )
    precision, recall, thresholds = precision_recall_curve(true_labels.ravel(), scores.ravel())
    index = int(np.searchsorted(thresholds, 0.8))
    assert curve.chosen == pytest.approx((recall[index], precision[index]))
    assert curve.constant == pytest.approx(
        (true_labels[:, 0].sum() / true_labels.sum(), true_labels[:, 0].mean())
    )
    expected = [precision[np.isclose(recall, level)].max() for level in curve.recall]
    np.testing.assert_allclose(curve.precision, expected)
    assert (
        PrecisionRecall.from_scores(
            scores,
            predicted_labels=scores > 1,
            true_labels=np.zeros_like(true_labels),
            constant_labels=constant_prediction,
            threshold=None,
        )
        is None
    )


@pytest.mark.slow
def test_odd_names_are_text_and_nothing_else(picture_arrays: PictureArrays) -> None:
    """Names with TeX, HTML or foreign letters are text in a picture. Long names are shortened."""
    for names, label_text in (
        (
            ("$x^2$", "<script>", "日本", "n" * 80),
            {"$x^2$", "<script>", "日本", "n" * 14 + "…" + "n" * 7},
        ),
        (
            [f"a_name_far_too_long_for_a_picture_{i}" for i in range(4)],
            {f"a_name_far_too…cture_{i}" for i in range(4)},
        ),
    ):
        svg = label_dots(replace(picture_arrays, label_names=tuple(names))).svg(id_prefix="labels")
        assert label_text <= set(texts_of_picture(svg=svg))
        assert "<script>" not in svg


@pytest.mark.slow
def test_arrays_of_small_runs_have_whole_numbers_on_their_axes() -> None:
    """The axes of a run with one label and two queries have whole numbers, and one epoch gives no curve."""
    arrays_of_small_run = PictureArrays(
        label_names=("a",),
        answered=np.ones(2, dtype=bool),
        labels=np.ones((2, 1), dtype=bool),
        epsilon_after_query=np.ones(2),
        vote_counts=np.array([[3], [4]]),
        student_curve={"loss": np.array([0.5])},
    )
    assert student_curve(arrays_of_small_run) is None, "one dot is no curve"
    assert texts_of_picture(svg=votes_by_rank(arrays_of_small_run).svg(id_prefix="picture"))[
        :2
    ] == [
        "1",
        "rank of the label within its query",
    ]
    assert texts_of_picture(svg=epsilon_curve(arrays_of_small_run).svg(id_prefix="picture"))[
        :4
    ] == [
        "0",
        "1",
        "2",
        "queries, refused ones included",
    ]


@pytest.mark.slow
def test_a_million_queries_stay_a_small_picture(picture_arrays: PictureArrays) -> None:
    """The SVGs of three pictures of a million queries have less than 100,000 characters each."""
    num_queries = 1_000_000
    arrays_of_large_run = PictureArrays(
        label_names=("a",),
        answered=np.ones(num_queries, dtype=bool),
        labels=np.ones((num_queries, 1), dtype=bool),
        epsilon_after_query=np.sqrt(np.arange(1, num_queries + 1)),
        gaps=np.arange(num_queries) % 800,
    )
    for picture in (
        epsilon_curve(arrays_of_large_run),
        gap_histogram(arrays_of_large_run),
        answer_bars(arrays_of_large_run),
    ):
        assert len(picture.svg(id_prefix="picture")) < 100_000


@pytest.mark.slow
def test_bounds_of_the_price_stand_beside_what_attacks_found(report: Report) -> None:
    """If the price bounds the share that attacks can find, the plot of the attack has a mark at this bound."""
    attack_bounds = AttackBounds(found={"0.01": 0.2, "0.1": 0.6}, advantage=0.5, gdp_mu=1.5)
    bounded_report = replace(report, privacy=replace(report.privacy, attacks=attack_bounds))
    for name, drawn_report in (("unbounded", report), ("bounded", bounded_report)):
        picture = membership_curve(drawn_report)
        assert picture is not None
        has_mark = "no attack finds more" in texts_of_picture(svg=picture.svg(id_prefix=name))
        assert has_mark == (drawn_report is bounded_report)


def test_a_picture_without_data_is_not_drawn(report: Report, picture_arrays: PictureArrays) -> None:
    """Pictures of queries, membership, losses and scores are left out if the run has none."""
    empty_arrays = PictureArrays(
        label_names=picture_arrays.label_names,
        answered=np.zeros(0, dtype=bool),
        labels=np.zeros((0, 4), dtype=bool),
        epsilon_after_query=np.zeros(0),
    )
    assert pictures(replace(report, membership=None), picture_arrays=empty_arrays).keys() == {
        "scores"
    }
    infinite_arrays = replace(picture_arrays, epsilon_after_query=np.full(6, np.inf))
    assert epsilon_curve(infinite_arrays) is None
    assert student_curve(replace(picture_arrays, student_curve={})) is None
    no_baselines = Baselines(
        prior=None,
        best_constant=None,
        majority_vote_student=None,
        true_label_student=None,
        all_records_model=None,
    )
    assert score_bars(replace(report, student=None, baselines=no_baselines)) is None


def test_the_caption_of_labels_names_only_the_drawn_marks(
    picture_arrays: PictureArrays,
) -> None:
    """The caption explains the round, square and diamond marks, except the mark of a model without metrics."""
    full_picture = label_dots(picture_arrays)
    assert full_picture is not None
    square = "from the round dot (private student) to the square (all-records model)"
    diamond = "from the round dot (private student) to the diamond (majority-vote student)"
    assert square in full_picture.caption and diamond in full_picture.caption
    metrics_of_two_models = {
        name: values
        for name, values in picture_arrays.per_label.items()
        if name != "all_records_model"
    }
    picture_without_square = label_dots(replace(picture_arrays, per_label=metrics_of_two_models))
    assert picture_without_square is not None
    assert diamond in picture_without_square.caption
    assert "square" not in picture_without_square.caption
