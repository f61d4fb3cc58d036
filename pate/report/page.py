"""The HTML page of a run: one file without scripts and without references to other files."""

import math
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pate.report.picture_arrays import PictureArrays
from pate.report.released_scores import NAMES
from pate.report.report import Report
from pate.report.run_pictures import pictures
from pate.report.wording import DASH, HEADLINE_METRIC, add_words


def render_html(report: Report, picture_arrays: PictureArrays) -> str:
    """Returns the page `report.html` of a run, which marks all parts that no epsilon covers. Every text is escaped."""
    return render_template(
        "report/report.html",
        report=report,
        picture_arrays=picture_arrays,
        bounded=math.isfinite(report.privacy.epsilon),
        pictures=pictures(report, picture_arrays),
    )


def render_template(template_path: str, **template_values: Any) -> str:
    """Returns an HTML page from a Jinja template that extends `report/page.html`.

    The template must define `title` and `legend`. The page is for light and dark screens, for print, and for any width
    from a phone's on. All texts are escaped, except the SVG of pictures.

    Args:
        template_path: the path of the template in the package.
        **template_values: the values for the template, by name.
    """
    return _environment().get_template(template_path).render(template_values)


@cache  # each template is compiled once
def _environment() -> Environment:
    """Returns the Jinja environment that loads the templates of `pate`, with the words and filters that pages use."""
    environment = Environment(
        loader=PackageLoader("pate", ""), autoescape=True, undefined=StrictUndefined
    )
    environment.trim_blocks = True
    environment.lstrip_blocks = True
    add_words(environment)
    environment.globals |= {"dash": DASH, "headline": HEADLINE_METRIC, "score_names": NAMES}
    environment.filters["number"] = _format_score
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """Returns a name as HTML that may be broken into lines after dots and underscores."""
    return Markup(str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def _format_score(value: float | None) -> str:
    """Returns a score as text with three decimals; a dash for None and NaN."""
    return DASH if value is None or np.isnan(value) else f"{value:.3f}"
