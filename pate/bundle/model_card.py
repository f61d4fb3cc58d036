"""The README of a published model: a model card in Hugging Face's format, with nothing in it that no epsilon covers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from pate.bundle.bundle import ModelForm
from pate.data import Preprocessing, TableSchema
from pate.extras import PUBLISHED, how_to_install
from pate.features.extracted_form import ExtractedForm
from pate.files.disk import write_text
from pate.models.student_model import StudentModel
from pate.report import Privacy
from pate.report.card import cell, features_origin
from pate.report.report import ReleaseSummary
from pate.report.wording import SEEDED_WARNING

_LONGEST_WORD = 60
_SHOWN = 10  # words of a column
_TASKS = {"features": "tabular-classification", "images": "image-classification"}
_PAGES = Environment(
    loader=PackageLoader("pate.bundle", ""),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


def publish(
    model: StudentModel,
    folder: Path,
    privacy: Privacy,
    release: ReleaseSummary,
    made: Preprocessing | None,
    **of: Any,
) -> None:
    """Writes what a student takes and gives, and its card, as Markdown with a head in YAML; no score can get in.

    `made` made its inputs; `of` are name, kind and labels of its data.
    """
    features = () if made is None else made.feature_names
    form = ModelForm(
        features=features,
        preprocessing=made,
        input_shape=tuple(model.input_shape),
        threshold=model.threshold,
        model=model.kind,
        **of,
    )
    form.write(folder)
    table = made.plain()["columns"] if isinstance(made, TableSchema) else {}
    texts = made.texts.values() if isinstance(made, TableSchema) else ()
    # texts need more than a table
    needed = "text" if any(vectors.kind == "encoder" for vectors in texts) else "table"
    task = _TASKS["images" if isinstance(made, ExtractedForm) else form.kind]
    rate = {"type": "answer_rate", "value": round(release.answer_rate, 4)}
    rate["name"] = "answer rate (covered by the epsilon)"
    source = {"name": f"labels released for public records of {form.name}", "type": form.name}
    result = {"task": {"type": task}, "dataset": source, "metrics": [rate]}
    head = {
        "library_name": "pate-multilabel",
        "license": "other",
        "pipeline_tag": task,
        "tags": [
            "differential-privacy",
            "pate",
            "multi-label-classification",
            f"student-{form.model}",
        ],
        "model-index": [{"name": f"{form.name}-{form.model}", "results": [result]}],
    }
    card = _PAGES.get_template("model_card.jinja").render(
        form=form,
        release=release,
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True),
        guarantee=replace(privacy, unit=cell(privacy.unit)).guarantee,
        seeded=SEEDED_WARNING if privacy.noise_seeded else "",
        install=how_to_install(needed, anywhere=True),
        published=PUBLISHED,
        extractor=made.extractor if isinstance(made, ExtractedForm) else None,
        takes_pictures=made is not None
        and (not isinstance(made, ExtractedForm) or made.pictures is not None),
        columns=[(cell(name), column["kind"], _range(column)) for name, column in table.items()],
        cell=cell,
        features_origin=features_origin,
    )
    write_text(folder / "README.md", card)


def _range(column: dict[str, Any]) -> str:
    """What a column of the public file holds."""
    if column["kind"] == "category":
        words = [
            w if len(w) <= _LONGEST_WORD else f"{w[:_LONGEST_WORD]}…"
            for w in column["categories"][:_SHOWN]
        ]
        words = [f'"{word}"' if "," in word else word for word in words]
        return cell(", ".join(words) + (", …" if len(column["categories"]) > _SHOWN else ""))
    if column["kind"] == "date":
        return "dates such as 2025-01-31"
    if column["kind"] == "text":
        fitted = (
            f"fitted on {column['num_texts']} public texts"
            if "num_texts" in column
            else "fitted on nothing"
        )
        model = f" of {cell(str(column['model']))}" if "model" in column else ""
        return f"{column['dimension']} numbers ({column['vectors']}{model}), {fitted}"
    return f"{column['min']:g} to {column['max']:g}"
