"""The page of a run: one self-contained file without scripts and without anything to fetch."""

import math
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pate.report.figures import RunFigures
from pate.report.report import Report
from pate.report.run_pictures import pictures
from pate.report.wording import DASH, HEADLINE, add_words


def render_html(report: Report, figures: RunFigures) -> str:
    """Returns `report.html`, which marks what no epsilon covers and must not be published. Every text is escaped."""
    return render_template(
        "report/report.html",
        report=report,
        figures=figures,
        bounded=math.isfinite(report.privacy.epsilon),
        pictures=pictures(report, figures),
    )


def render_template(template: str, **values: Any) -> str:
    """Returns a page: light, dark and in print, from the width of a phone on.

    Every text is escaped but a picture's SVG. The template extends `report/page.html`, and sets its `title` and
    `legend`.

    Args:
        template: its path within the package.
        **values: by the names that the template reads.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pate", ""), autoescape=True, undefined=StrictUndefined
    )
    environment.trim_blocks = True
    environment.lstrip_blocks = True
    add_words(environment)
    environment.globals |= {"dash": DASH, "headline": HEADLINE}
    environment.filters["number"] = _format_score
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """Returns a name as HTML that may break after its dots and underscores."""
    return Markup(str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def _format_score(value: float | None) -> str:
    """Returns a score with three decimals, or a dash for None and NaN."""
    return DASH if value is None or np.isnan(value) else f"{value:.3f}"
