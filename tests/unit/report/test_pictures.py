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
from pate.validation import InvalidValue

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


@pytest.mark.parametrize("name", MARKS)
def test_a_picture_takes_its_colors_from_the_page_and_fetches_nothing(drawn: dict[str, Picture], name: str) -> None:
    svg = drawn[name].svg
    assert re.findall(r"#[0-9a-f]{6}\b|http|<script|<image", svg) == []
    assert "var(--ink)" in svg or "var(--muted)" in svg


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


def test_labels_are_sorted_by_what_the_data_give_and_named(figures: RunFigures) -> None:
    highest, found = np.array([0.25, 0.75, 0.0, 0.5]), np.array([0.2, 0.3, 0.0, 0.5])
    per_label = {"student": student(found), "all_records_model": {"average_precision": highest}}
    picture = label_dots(replace(figures, per_label=per_label))
    names = [text for text in texts(picture.svg) if text in figures.label_names]
    assert names == ["artifact", "tree", "person", "animal"]
    assert "artifact with all-records model 0.75, private student 0.30; animal with" in picture.alt
    assert "2 of 4 labels are within twice of it" in picture.caption


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


@pytest.mark.slow
def test_all_forty_labels_are_shown_and_of_a_hundred_the_ends(figures: RunFigures) -> None:
    for num_labels, shown in ((40, 40), (100, 60)):
        names = tuple(f"label{index:03}" for index in range(num_labels))
        wide = RunFigures(
            label_names=names,
            answered=np.zeros(1, dtype=bool),
            labels=np.zeros((1, num_labels), dtype=bool),
            epsilon_after_query=np.ones(1),
            per_label={"student": student(np.linspace(1, 0, num_labels))},
        )
        picture = label_dots(wide)
        drawn = [text for text in texts(picture.svg) if text in names]
        assert drawn == [*names[: shown // 2], *names[-(shown // 2) :]]
        assert ("40 labels in the middle are left out" in picture.caption) == (num_labels == 100)


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


def test_answers_count_the_refused_and_the_labels(figures: RunFigures) -> None:
    labels = np.zeros((6, 4), dtype=bool)
    labels[2, :2] = labels[3, 1:3] = labels[1] = True  # query 1 is refused: its row is not to be read
    picture = answer_bars(replace(figures, labels=labels))
    assert "Of 6 queries 3 were refused and 3 answered; by number of labels released: 1 with 0, 2 with 2" in picture.alt
    assert {"answered (3)", "refused (3)"} <= set(texts(picture.svg))


def test_epsilon_curve_names_its_rounded_end(figures: RunFigures) -> None:
    picture = epsilon_curve(figures)
    assert "from 1.20 after query 1 to 8.00 after query 6" in picture.alt
    assert "8.00" in texts(picture.svg)


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


def test_gaps_say_where_the_test_passes(figures: RunFigures) -> None:
    picture = gap_histogram(figures)
    assert "from 206 votes on" in picture.alt  # the curve is gap / 411
    assert "pass probability (right)" in texts(picture.svg)
    bare = gap_histogram(replace(figures, pass_gaps=None, pass_probability=None))
    assert "probability" not in bare.alt + bare.caption + " ".join(texts(bare.svg))


def test_votes_by_rank_are_decreasing(figures: RunFigures) -> None:
    picture = votes_by_rank(replace(figures, histogram=np.array([[1, 9, 5, 3]] * 6)))
    assert "median over 6 queries: 9 for the first, 1 for the last of 4" in picture.alt


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


def test_an_undefined_score_is_said_and_intervals_where_there_are_some(report: Report) -> None:
    assert "95% intervals" in score_bars(report).caption
    assert "interval" not in score_bars(replace(report, intervals={})).caption
    picture = score_bars(replace(report, student=replace(report.student, balanced_accuracy=None)))
    assert "accuracy 0.914, balanced acc. undefined" in picture.alt
    assert "undefined" in texts(picture.svg)


WRONG = {
    "label_names": {"label_names": ()},
    "answered.dtype": {"answered": np.zeros(6, dtype=int)},
    "labels.shape": {"labels": np.zeros((6, 3), dtype=bool)},
    "epsilon_after_query.shape": {"epsilon_after_query": np.zeros(5)},
    "gaps.shape": {"gaps": np.zeros(5)},
    "histogram.shape": {"histogram": np.zeros((6, 5))},
    "pass_gaps": {"pass_gaps": None},
    "pass_probability": {"pass_probability": None},
    "pass_probability.shape": {"pass_probability": np.zeros(3)},
    "per_label[student][f1].shape": {"per_label": {"student": {"f1": np.zeros(3)}}},
}


@pytest.mark.parametrize("name", WRONG)
def test_figures_refuse_shapes_that_do_not_fit(figures: RunFigures, name: str) -> None:
    with pytest.raises(InvalidValue, match=f"^figures.{re.escape(name)}="):
        replace(figures, **WRONG[name])
