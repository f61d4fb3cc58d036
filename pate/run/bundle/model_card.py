"""The README of a published model: a model card in Hugging Face's format, with nothing in it that no epsilon covers."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any

import yaml

from pate.data import TableSchema
from pate.features.features import ExtractedForm
from pate.report import Privacy
from pate.report.card import cell, features_origin
from pate.report.report import ReleaseSummary
from pate.report.tables import SEEDED_WARNING
from pate.run.bundle.form import ModelForm
from pate.validation import PUBLISHED, how_to_install

_LONGEST_WORD = 60
_MOST_COLUMNS = 60
_COMMENTS = 44
_WHOSE = "  # the wheel comes from who gave you this folder: on PyPI nobody owns its name"
_TASKS = {"features": "tabular-classification", "images": "image-classification"}

_CARD = Template(Path(__file__).with_name("model_card.md").read_text(encoding="utf-8"))

_USES = {
    "table": (
        "pate-predict release=release/ data=new.csv output=predictions.csv",
        "a DataFrame with the columns below",
    ),
    "images": (
        "pate-predict release=release/ data=pictures/ output=predictions.csv",
        "a list of files, or of PIL images",
    ),
    "none": ("pate-predict release=release/ data=inputs.npy output=predictions.csv", "an array of inputs"),
}


def model_card(form: ModelForm, privacy: Privacy, release: ReleaseSummary) -> str:
    """Renders the card as Markdown with a head in YAML; no score on true labels can get in, as it is given none."""
    made = form.preprocessing
    kind = "none" if made is None else made.kind
    if isinstance(made, ExtractedForm):
        kind = "none" if made.pictures is None else "images"
    command, data = _USES[kind]
    seeded = f" The noise was seeded: {SEEDED_WARNING}." if privacy.noise_seeded else ""
    python = "\n".join(
        f"{name} = model.{method}(data)".ljust(_COMMENTS) + f"# {said}"
        for name, method, said in (("probabilities", "predict_proba", data), ("labels", "predict", "true or false"))
    )
    return _CARD.substitute(
        head=yaml.safe_dump(_head(form, release), sort_keys=False, allow_unicode=True),
        title=cell(f"{form.name}, a private student"),
        num_labels=len(form.labels),
        labels=", ".join(f"`{cell(name)}`" for name in form.labels),
        promise=f"{privacy.guarantee}.{seeded}",
        install=how_to_install(_extra(form), anywhere=True) + ("" if PUBLISHED else _WHOSE),
        command=command,
        python=python,
        inputs=_inputs(form),
        unpublished="| not published | no |",
        answered=f"{release.num_answered} of {release.num_queries}",
    )


def _extra(form: ModelForm) -> str:
    """What inputs need: an encoder of texts more than a table."""
    texts = form.preprocessing.texts.values() if isinstance(form.preprocessing, TableSchema) else ()
    return "text" if any(vectors.kind == "encoder" for vectors in texts) else "table"


def _head(form: ModelForm, release: ReleaseSummary) -> dict[str, Any]:
    task = _TASKS["images" if isinstance(form.preprocessing, ExtractedForm) else form.kind]
    rate = round(release.answer_rate, 4)
    metrics = [{"type": "answer_rate", "value": rate, "name": "answer rate (covered by the epsilon)"}]
    source = {"name": f"labels released for public records of {form.name}", "type": form.name}
    result = {"task": {"type": task}, "dataset": source, "metrics": metrics}
    return {
        "library_name": "pate-multilabel",
        "license": "other",
        "pipeline_tag": task,
        "tags": ["differential-privacy", "pate", "multi-label-classification", f"student-{form.model}"],
        "model-index": [{"name": f"{form.name}-{form.model}", "results": [result]}],
    }


def _inputs(form: ModelForm) -> str:
    if form.preprocessing is None:
        shape = ", ".join(("n", *map(str, form.input_shape)))
        return f"Inputs are arrays `[{shape}]`, made as those of the data set {cell(form.name)}."
    if isinstance(form.preprocessing, ExtractedForm):
        return _extracted(form.preprocessing)
    if form.preprocessing.kind == "images":
        _, height, width = form.input_shape
        return f"Pictures of any size are brought to {height} x {width} pixels."
    columns = form.preprocessing.plain()["columns"]
    shown = [f"| {cell(name)} | {column['kind']} | {_range(column)} |" for name, column in columns.items()]
    more = f"\nand {len(shown) - _MOST_COLUMNS} more, in `schema.json`.\n" if len(shown) > _MOST_COLUMNS else ""
    head = "Columns of a table, in any order; others are not read. Ranges and categories are those of the public file."
    return "\n".join([head, "", "| column | kind | range |", "|---|---|---|", *shown[:_MOST_COLUMNS]]) + more


def _extracted(form: ExtractedForm) -> str:
    channels, height, width = form.extractor.picture_shape
    brought = f"Pictures of any size are brought to {height} x {width} pixels"
    given = f"Inputs are arrays of pictures `[n, {channels}, {height}, {width}]`"
    said = f"{form.extractor.num_features} features stand for each, which {features_origin(form.origin)}"
    return f"{given if form.pictures is None else brought}; {said}. `extractor.safetensors` makes them."


def _range(column: dict[str, Any]) -> str:
    if column["kind"] == "category":
        words = [w if len(w) <= _LONGEST_WORD else f"{w[:_LONGEST_WORD]}…" for w in column["categories"][:10]]
        words = [f'"{word}"' if "," in word else word for word in words]
        return cell(", ".join(words) + (", …" if len(column["categories"]) > 10 else ""))
    if column["kind"] == "date":
        return "dates such as 2025-01-31"
    if column["kind"] == "text":
        fitted = f"fitted on {column['num_texts']} public texts" if "num_texts" in column else "fitted on nothing"
        model = f" of {cell(str(column['model']))}" if "model" in column else ""
        return f"{column['dimension']} numbers ({column['vectors']}{model}), {fitted}"
    return f"{column['min']:g} to {column['max']:g}"
