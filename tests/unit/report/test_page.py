import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from pate.report import Report
from pate.report.page import render_html
from pate.report.report import Heading, RunFigures

VOID = {"meta", "wbr", "br", "hr", "img", "link", "input"}
UNCOVERED = "no epsilon covers this"
DASH = "\N{EN DASH}"
HELD_OUT = "no epsilon covers the true labels it is scored with"


class Page(HTMLParser):
    """Checks the nesting of a page's tags and collects its elements, and the text of each table row and figure."""

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

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def texts(self, tag: str) -> list[str]:
        return [text for name, text in self.blocks if name == tag]


def self_contained(html: str) -> Page:
    """A page with every tag closed and every id unique, which fetches nothing and runs nothing."""
    page = Page(html)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag in ("script", "link", "img", "iframe", "object", "base", "form"):
        assert page.named(tag) == [], tag
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        assert all((attributes.get(name) or "#").startswith("#") for name in ("href", "xlink:href"))
    assert "://" not in html and "@import" not in html and "default-src 'none'" in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}
    return page


@pytest.fixture(scope="module")
def page(report: Report, figures: RunFigures) -> Page:
    return self_contained(render_html(report, figures))


def test_what_no_epsilon_covers_is_marked(page: Page) -> None:
    captions = page.texts("figcaption")
    assert sum(text.startswith(UNCOVERED) for text in captions) == 5  # scores, labels, membership, gaps, ranks
    assert sum(text.startswith(HELD_OUT) for text in captions) == 1  # precision and recall
    rows = page.texts("tr")
    for model in ("prior", "best constant", "majority-vote student", "true-label student", "all-records model"):
        assert any(text.startswith(f"{model}0.") for text in rows), model
    marked = [text for text in page.texts("caption") if text.endswith(UNCOVERED)]
    assert any(text.startswith("The ensemble.") for text in marked)
    assert any(text.startswith("Scores on 9,973 test samples. The student is covered; the true") for text in marked)
    assert any(text.endswith(HELD_OUT) for text in page.texts("caption") if text.startswith("The released"))


def test_the_price_is_rounded_up_and_the_papers_figure_labeled(page: Page) -> None:
    rows = page.texts("tr")
    assert "epsilon8.00" in rows
    assert "delta1e-6" in rows
    assert "epsilon of the paper3.66, as the paper accounts; not a bound" in rows
    assert any("≤ 8.00" in text for text in page.texts("dd"))


def test_no_guarantee_is_said(report: Report, figures: RunFigures) -> None:
    unbounded = replace(report, privacy=replace(report.privacy, epsilon=math.inf, paper_epsilon=None))
    page = Page(render_html(unbounded, replace(figures, epsilon_after_query=np.full(6, np.inf))))
    assert "epsiloninfinite: no guarantee" in page.texts("tr")
    assert "no guarantee" in page.texts("dd")
    assert any(text.startswith("No guarantee: the epsilon of this run is infinite") for text in page.texts("p"))
    assert not any("paper" in text for text in page.texts("tr"))


def test_seeded_and_synthetic_runs_carry_a_warning_and_only_they(
    report: Report, figures: RunFigures, page: Page
) -> None:
    privacy, data = replace(report.privacy, noise_seeded=True), replace(report.data, real=False)
    odd = replace(report, privacy=privacy, data=data, seed=7)
    warnings = Page(render_html(odd, figures)).texts("p")
    assert "This run had a seed: seeded noise protects nobody who knows the seed." in warnings
    assert "Keep this page inside; its noise had a seed; the data are synthetic. What that means" in warnings
    assert any(text.startswith("Synthetic data: ") for text in warnings)
    assert not any("seed" in text or "Synthetic" in text for text in page.texts("p"))


def test_all_text_is_escaped(report: Report, figures: RunFigures) -> None:
    attack = '"><script>alert(1)</script>$title'
    privacy = replace(report.privacy, unit=attack, mechanism=attack, parameters={attack: attack})
    odd = replace(report, privacy=privacy, data=replace(report.data, name=attack), versions={attack: attack})
    named = {"label_names": (attack, "b", "c", "d"), "gap_name": attack, "student_curve": {attack: np.ones(2)}}
    page = self_contained(render_html(odd, replace(figures, **named)))
    assert f"unit of privacy{attack}" in page.texts("tr")
    assert any(text.startswith(attack) for text in page.texts("tr"))


def test_the_table_of_labels_has_every_label_and_dashes_for_the_undefined(report: Report, figures: RunFigures) -> None:
    per_label = {"f1": np.array([0.5, 0.25, 0.0, 1.0]), "recall": np.array([0.5, 0.1, np.nan, 1.0])}
    rows = Page(render_html(report, replace(figures, per_label={"student": per_label}))).texts("tr")
    assert "labelF1recall" in rows
    for row in ("person0.5000.500", "artifact0.2500.100", f"animal0.000{DASH}", "tree1.0001.000"):
        assert row in rows


def test_a_run_without_a_student_leaves_its_pictures_out(report: Report, figures: RunFigures) -> None:
    bare = replace(figures, per_label={}, precision_recall=None, student_curve={}, gaps=None, histogram=None)
    page = Page(render_html(replace(report, student=None), bare))
    assert len(page.named("svg")) == 4
    assert "Each label" not in page.texts("h2")
    assert "no student was trained; a constant has 0.117" in page.texts("dd")
    assert f"private student{5 * DASH}" in page.texts("tr")


def test_the_verdict_is_read_first_and_the_warnings_are_one_line_with_a_link(page: Page, report: Report) -> None:
    _, verdict, warning, *_ = page.texts("p")
    assert verdict == report.verdict.text
    assert page.texts("strong")[0] == report.verdict.text.partition(". ")[0] + "."
    assert warning == "Keep this page inside. What that means"
    assert {"href": "#caveats"} in page.named("a")
    assert page.texts("h2")[0] == "Student"


def test_a_run_is_headed_by_the_name_that_it_was_configured_by_and_its_overrides(
    report: Report, figures: RunFigures
) -> None:
    heading = Heading("stable_top_k_gumbel", given={"target_epsilon": "2", "data.path": "<b>"})
    parameters = {"selection_scale": 49.65864833192564, "failure_prob": 1e-9}
    whole = replace(report, heading=heading, privacy=replace(report.privacy, parameters=parameters))
    page = Page(render_html(whole, figures))
    assert page.texts("h1") == page.texts("title") == ["stable_top_k_gumbel on wordnet"]
    assert page.texts("code") == ["target_epsilon=2 data.path=<b>"]
    rows = page.texts("tr")
    assert {"aggregatorstable_top_k_gumbel", "mechanismstable_top_k_table"} <= set(rows)
    assert {"mechanism.selection_scale49.7", "mechanism.failure_prob1e-09"} <= set(rows)


def test_the_headline_has_its_interval_and_each_label_its_own_threshold(report: Report, figures: RunFigures) -> None:
    whole = replace(report, intervals={"student": {"mean_average_precision": (0.3011, 0.3266)}})
    curve = replace(figures.precision_recall, threshold=(0.25, 0.5, 0.125, 1.0))
    page = Page(render_html(whole, replace(figures, precision_recall=curve)))
    assert page.texts("small") == [f"0.301{DASH}0.327"]
    assert any("95% interval over test sets drawn again" in text for text in page.texts("caption"))
    assert any(text.startswith("labelfrequency") and text.endswith("threshold") for text in page.texts("tr"))
    assert any(text.startswith("person") and text.endswith("0.250") for text in page.texts("tr"))
    assert any("from a probability of its own on, 0.125 to 1," in text for text in page.texts("figcaption"))
