"""The page of a run's report: well-formed and self-contained HTML that marks the numbers that no epsilon covers."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from pate.report import Report
from pate.report.bands import PrevalenceBand
from pate.report.page import render_html
from pate.report.picture_arrays import PictureArrays

# Elements of HTML that have no closing tag.
VOID = {"meta", "wbr", "br", "hr", "img", "link", "input"}
UNCOVERED = "no epsilon covers this"
DASH = "\N{EN DASH}"
HELD_OUT = "no epsilon covers the true labels it is scored with"


class Page(HTMLParser):
    """Checks the nesting of a page's tags, and collects its elements and the texts between opening and closing tags."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: list[tuple[str, str]] = []
        self._texts: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self._texts.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        for texts in self._texts:
            texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.blocks.append((tag, " ".join("".join(self._texts.pop()).split())))

    def attributes_of(self, tag: str) -> list[dict[str, str | None]]:
        """Returns the attributes of all elements of a tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def texts_of(self, tag: str) -> list[str]:
        """Returns the texts of all elements of a tag, each with those of the elements within it."""
        return [text for name, text in self.blocks if name == tag]


def parsed_page(html: str) -> Page:
    """Parses a page, and fails unless every tag is closed, every id is unique, and nothing is fetched or run."""
    page = Page(html=html)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag in ("script", "link", "img", "iframe", "object", "base", "form"):
        assert page.attributes_of(tag) == [], tag
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert all((attributes.get(name) or "#").startswith("#") for name in ("href", "xlink:href"))
    assert "://" not in html and "@import" not in html and "default-src 'none'" in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}
    return page


@pytest.fixture(scope="module")
def page(report: Report, picture_arrays: PictureArrays) -> Page:
    """Returns the parsed page of the small run."""
    return parsed_page(html=render_html(report, picture_arrays))


@pytest.mark.slow
def test_figures_without_an_epsilon_are_marked_on_the_page(page: Page) -> None:
    """Captions of pictures and tables say whether the epsilon covers their numbers, and each baseline has a row."""
    pictures = dict(
        zip(
            [figure["id"] for figure in page.attributes_of(tag="figure")],
            page.texts_of(tag="figcaption"),
            strict=True,
        )
    )
    marks = {
        **dict.fromkeys(("scores", "labels", "membership", "gaps", "ranks"), UNCOVERED),
        **dict.fromkeys(("curve", "answers", "epsilon"), "covered by the epsilon"),
        "precision-recall": HELD_OUT,
    }
    assert {name: pictures[name][: len(mark)] for name, mark in marks.items()} == marks
    rows = page.texts_of(tag="tr")
    for model in (
        "prior",
        "best constant",
        "majority-vote student",
        "true-label student",
        "all-records model",
    ):
        assert any(text.startswith(f"{model}0.") for text in rows), model
    marked = [text for text in page.texts_of(tag="caption") if text.endswith(UNCOVERED)]
    assert any(text.startswith("The ensemble.") for text in marked)
    assert any(
        text.startswith("Scores on 9,973 test samples. The student is covered; the true")
        for text in marked
    )
    assert any(
        text.endswith(HELD_OUT)
        for text in page.texts_of(tag="caption")
        if text.startswith("The released")
    )


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the pictures of a page with their captions, as they take a second."""
    monkeypatch.setattr("pate.report.page.pictures", lambda *_, **__: {})


@pytest.mark.usefixtures("no_pictures")
def test_an_infinite_epsilon_is_no_guarantee_on_the_page(
    report: Report, picture_arrays: PictureArrays
) -> None:
    """With an infinite epsilon, table, head and text of the page say that there is no guarantee."""
    report_without_guarantee = replace(
        report, privacy=replace(report.privacy, epsilon=math.inf, paper_epsilon=None)
    )
    page = Page(
        html=render_html(
            report_without_guarantee,
            picture_arrays=replace(picture_arrays, epsilon_after_query=np.full(6, np.inf)),
        )
    )
    assert "epsiloninfinite: no guarantee" in page.texts_of(tag="tr")
    assert "no guarantee" in page.texts_of(tag="dd")
    assert any(
        text.startswith("No guarantee: the epsilon of this run is infinite")
        for text in page.texts_of(tag="p")
    )
    assert not any("paper" in text for text in page.texts_of(tag="tr"))


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_seeded_and_synthetic_runs_carry_a_warning_and_only_they(
    report: Report, picture_arrays: PictureArrays, page: Page
) -> None:
    """A seeded run on synthetic data has both warnings, and a usual run none."""
    privacy = replace(report.privacy, noise_seeded=True)
    data = replace(report.data, real=False)
    seeded_report = replace(report, privacy=privacy, data=data, seed=7)
    warnings = Page(html=render_html(seeded_report, picture_arrays)).texts_of(tag="p")
    assert "This run had a seed: seeded noise protects nobody who knows the seed." in warnings
    assert (
        "Keep this page inside; its noise had a seed; the data are synthetic. What that means"
        in warnings
    )
    assert any(text.startswith("Synthetic data: ") for text in warnings)
    assert not any("seed" in text or "Synthetic" in text for text in page.texts_of(tag="p"))


@pytest.mark.slow
def test_all_text_is_escaped(report: Report, picture_arrays: PictureArrays) -> None:
    """A name with a script is shown as text wherever it occurs, and the page runs and fetches nothing."""
    hostile_name = '"><script>alert(1)</script>$title'
    privacy = replace(
        report.privacy,
        unit=hostile_name,
        mechanism=hostile_name,
        parameters={hostile_name: hostile_name},
    )
    hostile_report = replace(
        report,
        privacy=privacy,
        data=replace(report.data, name=hostile_name),
        versions={hostile_name: hostile_name},
    )
    page = parsed_page(
        html=render_html(
            hostile_report,
            picture_arrays=replace(
                picture_arrays,
                label_names=(hostile_name, "b", "c", "d"),
                gap_name=hostile_name,
                student_curve={hostile_name: np.ones(2)},
            ),
        )
    )
    assert f"unit of privacy{hostile_name}" in page.texts_of(tag="tr")
    assert any(text.startswith(hostile_name) for text in page.texts_of(tag="tr"))


@pytest.mark.slow
def test_the_page_begins_with_the_verdict_and_a_line_of_warnings(
    page: Page, report: Report
) -> None:
    """The page begins with the verdict, whose first sentence is in bold, and with a line to keep the page inside."""
    _, verdict, warning, *_ = page.texts_of(tag="p")
    assert verdict == report.verdict.text
    assert page.texts_of(tag="strong")[0] == report.verdict.text.partition(". ")[0] + "."
    assert warning == "Keep this page inside. What that means"
    assert {"href": "#caveats"} in page.attributes_of(tag="a")
    assert page.texts_of(tag="h2")[0] == "Student"


def rows_of_facts(html: str) -> dict[str, str]:
    """Returns the rows of the page's tables of facts, by their names."""
    return dict(
        re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td></tr>', html.replace("<wbr>", ""))
    )


@pytest.mark.usefixtures("no_pictures")
def test_only_an_epsilon_above_ten_is_warned_of(
    report: Report, picture_arrays: PictureArrays
) -> None:
    """The page warns of epsilon 387, and not of 10 or infinity."""
    warning = "Epsilon above 10 promises one person little."
    for epsilon, is_warned_of in ((387.0, True), (10.0, False), (math.inf, False)):
        html = render_html(
            replace(report, privacy=replace(report.privacy, epsilon=epsilon)), picture_arrays
        )
        assert (warning in html) is is_warned_of


def test_a_session_has_one_price_whichever_queries_are_answered(
    report: Report, picture_arrays: PictureArrays
) -> None:
    """The page says that a query without an answer costs as much as one with it, unless a session has one price."""
    each_query = "A refused query costs as much privacy as an answered one."
    whole_session = "The price is that of the whole session, whichever queries are answered."
    html = render_html(report, picture_arrays)
    assert each_query in html and whole_session not in html
    session = replace(report.privacy, target_hits=5)
    html = render_html(replace(report, privacy=session), picture_arrays)
    assert whole_session in html and each_query not in html


@pytest.mark.usefixtures("no_pictures")
def test_private_groups_are_counted_beside_the_records(
    report: Report, picture_arrays: PictureArrays
) -> None:
    """A run with fewer groups than records has a row that counts the groups."""
    name = "groups of private records: the units of privacy"
    html = render_html(replace(report, data=replace(report.data, num_groups=1234)), picture_arrays)
    assert rows_of_facts(html=html)["private records"] == "62,115"
    assert rows_of_facts(html=html)[name] == "1,234"
    # An older report does not count groups.
    assert name not in rows_of_facts(html=render_html(report, picture_arrays))


@pytest.mark.usefixtures("no_pictures")
def test_a_model_without_scores_has_its_reason(
    report: Report, picture_arrays: PictureArrays
) -> None:
    """A table has the reason for a model that was not trained. Without such models, there is no table."""
    baselines = replace(report.baselines, all_records_model=None)
    report_without_model = replace(
        report, baselines=baselines, left_out={"all_records_model": "all_records=false"}
    )
    assert (
        rows_of_facts(html=render_html(report_without_model, picture_arrays))[
            "the all-records model"
        ]
        == "not trained, as all_records=false"
    )
    assert "Why a model has no scores." not in render_html(report, picture_arrays)


@pytest.mark.usefixtures("no_pictures")
def test_bands_and_gaps_have_their_place_on_the_page(
    report: Report, picture_arrays: PictureArrays
) -> None:
    """The page has a row for a band of labels, which are those of similar frequency.

    If labels have gaps, it has a row with the known share of each split, and a column of the samples that are known.
    """
    prevalence_band = PrevalenceBand(
        name="tail",
        num_labels=1,
        highest=0.02,
        lowest=0.01,
        mean_average_precision={"prior": 0.015, "student": 0.25},
    )
    known_share_of_split = {"private": 0.2, "public": 1.0, "test": 0.5}
    report_with_gaps = replace(
        report,
        bands=(prevalence_band,),
        data=replace(report.data, known_labels=known_share_of_split),
    )
    student_metrics = {
        **picture_arrays.per_label["student"],
        "num_known": np.array([100.0, 200.0, 0.0, 9973.0]),
    }
    page = parsed_page(
        html=render_html(
            report_with_gaps, replace(picture_arrays, per_label={"student": student_metrics})
        )
    )
    rows = page.texts_of(tag="tr")
    assert f"tail0.0200{DASH}0.010010.0150.250" in [row.replace(" ", "") for row in rows]
    assert any("private 20.0%, public 100.0%, test 50.0%" in row for row in rows)
    assert "known" in page.texts_of(tag="th")
    assert any(
        text.startswith("Scores on 9,973 test samples, of whose labels 10,273 are known.")
        for text in page.texts_of(tag="caption")
    )
