"""The README of a published model: a model card in the format of Hugging Face.

All numbers on the card that depend on private records are covered by the epsilon of the release, or, for scores, by an
epsilon of their own.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from pate.accounting.rounding import format_epsilon
from pate.bundle.model_form import ModelForm
from pate.data import TableSchema
from pate.extras import PACKAGE_IS_PUBLISHED, how_to_install
from pate.features.extracted_form import ExtractedForm
from pate.files.atomic import write_text
from pate.report import Privacy
from pate.report.card import describe_features_origin, markdown_cell
from pate.report.released_scores import NAMES, ReleasedScores
from pate.report.report import ReleaseSummary
from pate.report.wording import SEEDED_WARNING

# The largest length of a category on the card, in characters.
_MAX_WORD_LENGTH = 60
# The largest number of categories of a column on the card.
_MAX_WORDS = 10
# The extras that every prediction needs, and the kinds of student that need no more, as they predict without torch.
_LEAST_EXTRA = "predict,cli"
_KINDS_WITHOUT_TORCH = ("linear", "logistic", "low_rank", "mlp", "released", "released_kernel")
# The names of metrics on Hugging Face, where they differ from ours.
_METRIC_TYPES = {"micro_f1": "f1", "macro_f1": "f1"}
# The tasks of Hugging Face, by the kind of the data set.
_TASKS = {"features": "tabular-classification", "images": "image-classification"}
_PAGES = Environment(
    loader=PackageLoader("pate.bundle", ""),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


def write_model_card(
    folder: Path,
    form: ModelForm,
    *,
    privacy: Privacy,
    release_summary: ReleaseSummary,
    stated_public: Sequence[str] = (),
    labels_have_gaps: bool = False,
) -> None:
    """Writes the model card of a student into the folder of its bundle, in Markdown with a YAML header.

    The card contains no score but those that `privacy.scores` has, which were released at a price of their own.

    Args:
        folder: the folder of the bundle.
        form: the form of the student.
        privacy: the price of the release.
        release_summary: the numbers of queries and answers of the release.
        stated_public: names of facts that are public by the statement of the data owner alone, such as "classes".
        labels_have_gaps: whether labels of private records may be unknown, which is public.
    """
    column_description_by_name = {}
    if isinstance(form.preprocessing, TableSchema):
        column_description_by_name = form.preprocessing.plain()["columns"]
    extractor = None
    if isinstance(form.preprocessing, ExtractedForm):
        extractor = form.preprocessing.extractor
    extra_name = _extra_to_predict(form)
    card_header = _header(form, release_summary=release_summary, released_scores=privacy.scores)
    card_text = _PAGES.get_template("model_card.jinja").render(
        form=form,
        release=release_summary,
        header=yaml.safe_dump(card_header, sort_keys=False, allow_unicode=True),
        guarantee=replace(privacy, unit=markdown_cell(privacy.unit)).guarantee,
        attacks=_attacks_sentence(privacy),
        scores=privacy.scores,
        seeded=SEEDED_WARNING if privacy.noise_seeded else "",
        install=how_to_install(extra_name, on_any_machine=True),
        published=PACKAGE_IS_PUBLISHED,
        is_least=extra_name == _LEAST_EXTRA,
        extractor=extractor,
        takes_pictures=form.takes_pictures,
        columns=[
            (
                markdown_cell(column_name),
                column_description["kind"],
                _values_text(column_description),
            )
            for column_name, column_description in column_description_by_name.items()
        ],
        stated_public=[markdown_cell(public_fact) for public_fact in stated_public],
        labels_have_gaps=labels_have_gaps,
        markdown_cell=markdown_cell,
        describe_features_origin=describe_features_origin,
    )
    write_text(folder / "README.md", text=card_text)


def _extra_to_predict(form: ModelForm) -> str:
    """Returns the extras of this package that a prediction needs: "text", "table", or else "predict,cli"."""
    needs_torch = form.model not in _KINDS_WITHOUT_TORCH
    if isinstance(form.preprocessing, TableSchema):
        if any(vectors.kind == "encoder" for vectors in form.preprocessing.texts.values()):
            return "text"
    elif form.preprocessing is not None:
        needs_torch = True  # of features of pictures
    return "table" if needs_torch else _LEAST_EXTRA


def _header(
    form: ModelForm, *, release_summary: ReleaseSummary, released_scores: ReleasedScores | None
) -> dict[str, Any]:
    """Returns the YAML header of the card, in the form of Hugging Face's `model-index`.

    Args:
        form: the form of the student.
        release_summary: the numbers of queries and answers of the release.
        released_scores: the released scores on private test records; None if none were released.
    """
    is_extracted = isinstance(form.preprocessing, ExtractedForm)
    task_name = _TASKS["images" if is_extracted else form.kind]
    answer_rate = {
        "type": "answer_rate",
        "value": round(release_summary.answer_rate, 4),
        "name": "answer rate (covered by the epsilon)",
    }
    results = [
        {
            "task": {"type": task_name},
            "dataset": {
                "name": f"labels released for public records of {form.name}",
                "type": form.name,
            },
            "metrics": [answer_rate],
        }
    ]
    if released_scores is not None:
        results.append(_result_of_scores(released_scores, task_name=task_name, data_name=form.name))
    return {
        "library_name": "pate-multilabel",
        "license": "other",
        "pipeline_tag": task_name,
        "tags": [
            "differential-privacy",
            "pate",
            "multi-label-classification",
            f"student-{form.model}",
        ],
        "model-index": [{"name": f"{form.name}-{form.model}", "results": results}],
    }


def _result_of_scores(
    released_scores: ReleasedScores, *, task_name: str, data_name: str
) -> dict[str, Any]:
    """Returns the released scores on private test records as a result of the card's `model-index`.

    Args:
        released_scores: the released scores.
        task_name: the task of the model.
        data_name: the name of the data set.
    """
    price = f"epsilon {format_epsilon(released_scores.epsilon)} of the test records"
    metrics = [
        {
            "type": _METRIC_TYPES.get(name, name),
            "value": round(getattr(released_scores, name).value, 4),
            "name": f"{words}, 95% interval {getattr(released_scores, name).interval} ({price})",
        }
        for name, words in NAMES.items()
    ]
    return {
        "task": {"type": task_name},
        "dataset": {"name": f"private test records of {data_name}", "type": data_name},
        "metrics": metrics,
    }


def _attacks_sentence(privacy: Privacy) -> str:
    """Returns a sentence on the success of attacks, with a space before it.

    Returns an empty string if the price states no bound on attacks.
    """
    if privacy.attacks is None:
        return ""
    sentence = privacy.attacks.sentence
    return f" {sentence[0].upper()}{sentence[1:]}."


def _values_text(column_description: dict[str, Any]) -> str:
    """Returns a phrase on the values of a column of the public file, such as its categories or its range.

    Args:
        column_description: the column as `schema.json` describes it, by field.
    """
    if column_description["kind"] == "category":
        categories = column_description["categories"]
        shortened_categories = [_shorten_word(category) for category in categories[:_MAX_WORDS]]
        ending = ", …" if len(categories) > _MAX_WORDS else ""
        return markdown_cell(", ".join(shortened_categories) + ending)
    if column_description["kind"] == "date":
        return "dates such as 2025-01-31"
    if column_description["kind"] == "text":
        fitted = "fitted on nothing"
        if "num_texts" in column_description:
            fitted = f"fitted on {column_description['num_texts']} public texts"
        model = (
            f" of {markdown_cell(str(column_description['model']))}"
            if "model" in column_description
            else ""
        )
        return f"{column_description['dimension']} numbers ({column_description['vectors']}{model}), {fitted}"
    return f"{column_description['min']:g} to {column_description['max']:g}"


def _shorten_word(word: str) -> str:
    """Returns a word of a cell, shortened to `_MAX_WORD_LENGTH` characters and …; in quotes if a comma is left."""
    short = word
    if len(word) > _MAX_WORD_LENGTH:
        short = f"{word[:_MAX_WORD_LENGTH]}…"
    return f'"{short}"' if "," in short else short
