"""The texts that reports share: names of metrics, models and adjacencies, and formats of numbers."""

from typing import Any

from pate.accounting.rounding import format_delta, format_epsilon

# The heading of each metric, by its key in report.json; the headline first.
METRIC_NAMES = {
    "mean_average_precision": "mean AP",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced acc.",
}
# The name of each model, by its key in report.json, from constant predictions to models without privacy.
MODEL_NAMES = {
    "prior": "prior",
    "best_constant": "best constant",
    "student": "private student",
    "majority_vote_student": "majority-vote student",
    "true_label_student": "true-label student",
    "all_records_model": "all-records model",
}
# The metric by which models are compared, in a headline.
HEADLINE_METRIC = "mean_average_precision"
# The text in place of an undefined number.
DASH = "\N{EN DASH}"
SEEDED_WARNING = "seeded noise protects nobody who knows the seed"
PAPER_LABEL = "as the paper accounts; not a bound"
# The change of the private records that each adjacency is about.
ADJACENCY_NAMES = {
    "replace_one": "one unit of privacy is replaced by any other",
    "add_remove": "one teacher, with all its records, is added or removed",
}


def percent(share: float) -> str:
    """Returns a share in [0, 1] as a percentage with one decimal."""
    return f"{100 * share:.1f}%"


def add_words(templates: Any) -> None:
    """Adds to a Jinja environment the filters `delta`, `epsilon` and `percent`, and the words that all pages use.

    The words are the names of metrics, models and adjacencies, `PAPER_LABEL` and `SEEDED_WARNING`.
    """
    templates.filters |= {"delta": format_delta, "epsilon": format_epsilon, "percent": percent}
    templates.globals |= {
        "metrics": METRIC_NAMES,
        "names": MODEL_NAMES,
        "adjacencies": ADJACENCY_NAMES,
    }
    templates.globals |= {"PAPER_LABEL": PAPER_LABEL, "SEEDED_WARNING": SEEDED_WARNING}
