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
    """All pictures drawn twice are equal, have unique ids and known targets, and leave matplotlib's settings."""
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
    """The curve has scikit-learn's precisions and the chosen and constant points. Without true labels there is none."""
    rng = np.random.default_rng(0)
    true = rng.random((300, 3)) < 0.3
    scores = rng.random((300, 3)) + 0.5 * true
    curve = PrecisionRecall.from_scores(
        scores,
        predicted_labels=scores >= 0.8,
        true_labels=true,
        constant_labels=np.array([True, False, False]),
        threshold=0.8,
    )
    precision, recall, levels = precision_recall_curve(true.ravel(), scores.ravel())
    place = int(np.searchsorted(levels, 0.8))
    assert curve.chosen == pytest.approx((recall[place], precision[place]))
    assert curve.constant == pytest.approx((true[:, 0].sum() / true.sum(), true[:, 0].mean()))
    expected = [precision[np.isclose(recall, level)].max() for level in curve.recall]
    np.testing.assert_allclose(curve.precision, expected)
    assert (
        PrecisionRecall.from_scores(
            scores,
            predicted_labels=scores > 1,
            true_labels=true & False,
            constant_labels=true[0],
            threshold=None,
        )
        is None
    )


@pytest.mark.slow
def test_odd_names_are_text_and_nothing_else(picture_arrays: PictureArrays) -> None:
    """Names with TeX, HTML or foreign letters are text in a picture; long names are shortened."""
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
def test_small_runs_have_whole_numbers_on_their_axes() -> None:
    """A run with one label and two queries has whole numbers on its axes. One epoch gives no curve."""
    small_run = PictureArrays(
        label_names=("a",),
        answered=np.ones(2, dtype=bool),
        labels=np.ones((2, 1), dtype=bool),
        epsilon_after_query=np.ones(2),
        histogram=np.array([[3], [4]]),
        student_curve={"loss": np.array([0.5])},
    )
    assert student_curve(small_run) is None, "one dot is no curve"
    assert texts_of_picture(svg=votes_by_rank(small_run).svg(id_prefix="a"))[:2] == [
        "1",
        "rank of the label within its query",
    ]
    assert texts_of_picture(svg=epsilon_curve(small_run).svg(id_prefix="a"))[:4] == [
        "0",
        "1",
        "2",
        "queries, refused ones included",
    ]


@pytest.mark.slow
def test_a_million_queries_stay_a_small_picture(picture_arrays: PictureArrays) -> None:
    """Pictures of a million queries have less than 100,000 letters."""
    count = 1_000_000
    large_run = PictureArrays(
        label_names=("a",),
        answered=np.ones(count, dtype=bool),
        labels=np.ones((count, 1), dtype=bool),
        epsilon_after_query=np.sqrt(np.arange(1, count + 1)),
        gaps=np.arange(count) % 800,
    )
    for picture in (epsilon_curve(large_run), gap_histogram(large_run), answer_bars(large_run)):
        assert len(picture.svg(id_prefix="a")) < 100_000


def test_bounds_of_the_price_stand_beside_what_attacks_found(report: Report) -> None:
    """The picture of the attack has a mark for the most that any attack finds, where the price bounds it."""
    bounds = AttackBounds(found={"0.01": 0.2, "0.1": 0.6}, advantage=0.5, gdp_mu=1.5)
    bounded = replace(report, privacy=replace(report.privacy, attacks=bounds))
    for name, described in (("a", report), ("b", bounded)):
        picture = membership_curve(described)
        assert picture is not None
        has_mark = "no attack finds more" in texts_of_picture(svg=picture.svg(id_prefix=name))
        assert has_mark == (described is bounded)


def test_a_picture_without_data_is_not_drawn(report: Report, picture_arrays: PictureArrays) -> None:
    """Without queries, membership, losses or scores, the pictures of these are left out."""
    bare = PictureArrays(
        label_names=picture_arrays.label_names,
        answered=np.zeros(0, dtype=bool),
        labels=np.zeros((0, 4), dtype=bool),
        epsilon_after_query=np.zeros(0),
    )
    assert pictures(replace(report, membership=None), picture_arrays=bare).keys() == {"scores"}
    unbounded = replace(picture_arrays, epsilon_after_query=np.full(6, np.inf))
    assert epsilon_curve(unbounded) is None
    assert student_curve(replace(picture_arrays, student_curve={})) is None
    nobody = Baselines(
        prior=None,
        best_constant=None,
        majority_vote_student=None,
        true_label_student=None,
        all_records_model=None,
    )
    assert score_bars(replace(report, student=None, baselines=nobody)) is None


def test_the_caption_of_labels_names_only_the_drawn_marks(
    picture_arrays: PictureArrays,
) -> None:
    """The caption names round, square and diamond marks, but only those with a model."""
    full_picture = label_dots(picture_arrays)
    assert full_picture is not None
    square = "from the round dot (private student) to the square (all-records model)"
    diamond = "from the round dot (private student) to the diamond (majority-vote student)"
    assert square in full_picture.caption and diamond in full_picture.caption
    partial_pictures = {
        name: values
        for name, values in picture_arrays.per_label.items()
        if name != "all_records_model"
    }
    without = label_dots(replace(picture_arrays, per_label=partial_pictures))
    assert without is not None
    assert diamond in without.caption and "square" not in without.caption
