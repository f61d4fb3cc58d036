"""A holder's answer to a request: its teachers learn from its own records, and their votes become a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pate.federated.request import Request
from pate.files.atomic import make_folder, write_arrays
from pate.run.progress import Monitor
from pate.run.stages.holder import HolderPlan, cast_vote_file
from pate.run.stages.queries import AskedData


def asked(plan: HolderPlan, request: Request, folder: Path) -> HolderPlan:
    """The plan of a holder that answers what is asked of it, and in the form that is asked for; the rest is its own."""
    queries = queries_file(request, folder)
    form: dict[str, Any] = {"num_queries": request.num_queries, "cast": request.cast, "vote_clip": request.vote_clip}
    settings = {**plan.settings, **form, "queries": request.digest}
    return replace(
        plan, load_dataset=AskedData(SimpleNamespace(load=plan.load_dataset), queries).load, settings=settings, **form
    )


def queries_file(request: Request, folder: Path) -> Path:
    """The samples that are asked about, as a file in a folder."""
    path = folder / "queries.npz"
    names = np.array(request.label_names, np.str_)
    write_arrays(path, inputs=request.inputs, ids=np.asarray(request.record_ids), label_names=names)
    return path


def votes_path(request: Request, folder: Path) -> Path:
    """Where a holder keeps its votes on a request."""
    return folder / request.digest[:16] / "votes.npz"


def answer(plan: HolderPlan, request: Request, folder: Path, monitor: Monitor | None = None) -> bytes:
    """The vote file that a holder sends, as bytes. The same request gets the same bytes, whatever was interrupted.

    Args:
        plan: the holder's own: name, records, teachers.
        request: what is asked.
        folder: of mode 0700, where teachers and votes are kept; each request has its own folder in it.
        monitor: told of progress.

    Raises:
        InvalidValue: records or teachers that cannot answer; a plan that cannot work.
    """
    output = votes_path(request, folder)
    make_folder(output.parent)
    cast_vote_file(asked(plan, request, output.parent), output, output.parent / "teachers", monitor)
    return output.read_bytes()
