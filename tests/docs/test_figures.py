"""Figures that several pages show agree, and every printed epsilon is rounded by the same rule."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AUDIT_TEXT = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
TEMPLATES = sorted(
    path
    for path in (ROOT / "pate").rglob("*")
    if path.suffix in (".txt", ".html", ".jinja") and "data" not in path.parts
)
# the output of the audit's blocks, which run in the tests
PRINTED = re.findall(r"^#> (.*)$", AUDIT_TEXT, re.MULTILINE)
FIGURE = re.compile(r"\d+\.\d{2}\b")


def printed(beginning: str) -> list[str]:
    """Returns the figures with two decimals in the first line of the audit that begins with these words."""
    return next(FIGURE.findall(line) for line in PRINTED if line.startswith(beginning))


def test_the_reproductions_and_the_audit_have_the_same_figures() -> None:
    """reproductions/README.md has the figures of experiment 3 that the blocks of docs/audit.md print."""
    page = (ROOT / "reproductions" / "README.md").read_text(encoding="utf-8")
    item = page[page.index("**Experiment 3:") : page.index("**Table 2:")]
    (formula,) = printed(beginning="the formula behind")
    bounds = printed(beginning="the paper's noise, optimal composition")
    gumbel = printed(beginning="Gumbel noise, Renyi")
    pairs = [
        next(FIGURE.findall(line)[0] for line in PRINTED if line.startswith(f"{name}, at"))
        for name in KINDS
    ]
    assert FIGURE.findall(item) == [formula, *pairs, *bounds, *gumbel]
    assert (formula, *bounds) == ("3.67", "7.72", "17.79")


KINDS = ("add_remove", "replace_one")


@pytest.mark.parametrize(
    ("release", "place"),
    [("stable top-k, the paper's noise", 1), ("the paper's noise, add/remove", 0)],
)
def test_the_table_of_tightness_and_the_audit_have_the_same_prices(
    release: str, place: int
) -> None:
    """docs/results.json has the epsilons of the paper's noise that docs/audit.md prints, in a row for each adjacency.

    Args:
        release: the row of the table.
        place: the place of the figure in the audit's line.
    """
    rows = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))["tightness"][
        "rows"
    ]
    _, _, renyi, best = next(row for row in rows if row[0] == release)
    assert renyi.split(",")[0] == printed(beginning="the paper's noise, Renyi")[place]
    assert best.split(",")[0] == printed(beginning="the paper's noise, optimal composition")[place]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_epsilon_of_a_template_is_rounded_by_one_rule(path: Path) -> None:
    """A template prints each epsilon by the filters `epsilon`, `string` or `up`, and only caps by `up`."""
    template_text = path.read_text(encoding="utf-8")
    figures = re.findall(r"\b\w+\.(?:\w*_)?epsilon(?:\[\w+\])?\s*\|\s*(\w+)", template_text)
    assert set(figures) <= {"epsilon", "string", "up"}  # a data-dependent one is a sentence
    # caps, which people type back: with more digits, and rounded up as well
    caps = {"account.cap", "each.max_epsilon"}
    assert set(re.findall(r"([\w.]+)\s*\|\s*up\b", template_text)) <= caps
    assert not re.findall(r"\|\s*claim\b", template_text)
