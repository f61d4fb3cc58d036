import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve

from pate.report import Report
from pate.report.metrics import PrecisionRecall
from pate.report.pictures import (
    Picture,
    answer_bars,
    epsilon_curve,
    gap_histogram,
    label_dots,
    pictures,
    score_bars,
    student_curve,
    votes_by_rank,
)
from pate.report.report import Baselines, PrivacyCoverage, RunFigures

MARKS = {
    **dict.fromkeys(("scores", "labels", "membership", "gaps", "ranks"), PrivacyCoverage.UNCOVERED),
    **dict.fromkeys(("curve", "answers", "epsilon"), PrivacyCoverage.COVERED),
    "precision-recall": PrivacyCoverage.HELD_OUT,
}


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    return ["".join(element.itertext()) for element in root.iter() if element.tag == "text"]


@pytest.mark.slow
def test_every_picture_is_drawn_and_marked(drawn: dict[str, Picture]) -> None:
    assert {name: picture.mark for name, picture in drawn.items()} == MARKS
    assert all(name == picture.name for name, picture in drawn.items())


@pytest.fixture(scope="module")
def drawn(report: Report, figures: RunFigures) -> dict[str, Picture]:
    return pictures(report, figures)


def test_ids_of_one_page_are_unique_and_references_hit(drawn: dict[str, Picture]) -> None:
    svgs = [picture.svg for picture in drawn.values()]
    ids = [name for svg in svgs for name in re.findall(r'\bid="([^"]+)"', svg)]
    assert len(ids) == len(set(ids)) > 50
    for svg in svgs:
        targets = re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg)
        assert set(targets) <= set(re.findall(r'\bid="([^"]+)"', svg))


@pytest.mark.slow
def test_drawing_is_reproducible_and_changes_no_global_state(
    report: Report, figures: RunFigures, drawn: dict[str, Picture]
) -> None:
    before = dict(mpl.rcParams)
    assert pictures(report, figures) == drawn
    assert dict(mpl.rcParams) == before


def student(average_precision: np.ndarray) -> dict[str, np.ndarray]:
    return {"average_precision": average_precision, "prevalence": np.full(len(average_precision), 0.1)}


def test_precision_and_recall_end_at_the_chosen_point() -> None:
    rng = np.random.default_rng(0)
    true = rng.random((300, 3)) < 0.3
    scores = rng.random((300, 3)) + 0.5 * true
    curve = PrecisionRecall.of(scores, scores >= 0.8, true, constant=np.array([True, False, False]), threshold=0.8)
    precision, recall, levels = precision_recall_curve(true.ravel(), scores.ravel())
    place = int(np.searchsorted(levels, 0.8))
    assert curve.chosen == pytest.approx((recall[place], precision[place]))
    assert curve.constant == pytest.approx((true[:, 0].sum() / true.sum(), true[:, 0].mean()))
    expected = [precision[np.isclose(recall, level)].max() for level in curve.recall]
    np.testing.assert_allclose(curve.precision, expected)
    assert PrecisionRecall.of(scores, scores > 1, true & False, constant=true[0], threshold=None) is None


def test_odd_names_are_text_and_nothing_else(figures: RunFigures) -> None:
    names = ("$x^2$", "<script>", "日本", "n" * 80)
    precision = {"student": student(np.array([0.4, 0.3, 0.2, 0.1]))}
    picture = label_dots(replace(figures, label_names=names, per_label=precision))
    drawn = texts(picture.svg)
    assert {"$x^2$", "<script>", "日本", "n" * 14 + "…" + "n" * 7} <= set(drawn)
    assert "<script>" not in picture.svg
    names = tuple(f"a_name_far_too_long_for_a_picture_{index}" for index in range(4))
    picture = label_dots(replace(figures, label_names=names))
    assert {f"a_name_far_too…cture_{index}" for index in range(4)} <= set(texts(picture.svg))


def test_one_epoch_one_label_and_few_queries_have_whole_numbers_on_their_axes() -> None:
    few = RunFigures(
        label_names=("a",),
        answered=np.ones(2, dtype=bool),
        labels=np.ones((2, 1), dtype=bool),
        epsilon_after_query=np.ones(2),
        histogram=np.array([[3], [4]]),
        student_curve={"loss": np.array([0.5])},
    )
    assert student_curve(few) is None, "one dot is no curve"
    assert texts(votes_by_rank(few).svg)[:2] == ["1", "rank of the label within its query"]
    assert texts(epsilon_curve(few).svg)[:4] == ["0", "1", "2", "queries, refused ones included"]


@pytest.mark.slow
def test_a_million_queries_stay_a_small_picture(figures: RunFigures) -> None:
    count = 1_000_000
    many = RunFigures(
        label_names=("a",),
        answered=np.ones(count, dtype=bool),
        labels=np.ones((count, 1), dtype=bool),
        epsilon_after_query=np.sqrt(np.arange(1, count + 1)),
        gaps=np.arange(count) % 800,
    )
    for picture in (epsilon_curve(many), gap_histogram(many), answer_bars(many)):
        assert len(picture.svg) < 100_000


def test_what_is_missing_is_not_drawn(report: Report, figures: RunFigures) -> None:
    bare = RunFigures(
        label_names=figures.label_names,
        answered=np.zeros(0, dtype=bool),
        labels=np.zeros((0, 4), dtype=bool),
        epsilon_after_query=np.zeros(0),
    )
    assert pictures(replace(report, membership=None), bare).keys() == {"scores"}
    unbounded = replace(figures, epsilon_after_query=np.full(6, np.inf))
    assert epsilon_curve(unbounded) is None
    assert student_curve(replace(figures, student_curve={})) is None
    nobody = Baselines(None, None, None, None, None)
    assert score_bars(replace(report, student=None, baselines=nobody)) is None
