"""torchvision, also where its wheel was built for another torch.

The wheel on the package index is built for CUDA. Beside a torch without it, `import torchvision` fails, for want of two
operators that models never call: `torchvision::nms` and its quantized sibling. Declaring their schemas first is enough.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import torch

from pate.validation import InvalidValue

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []  # a library's declarations end with it


def torchvision_models(setting: str = "teacher=resnet50") -> Any:
    """Imports `torchvision.models`; `setting` is what needs it.

    Raises:
        InvalidValue: torchvision is not installed.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        raise InvalidValue(f"{setting}: expected torchvision to be installed: pip install 'pate-multilabel[vision]'")
    if not _declared and needs_schemas(installed_version(Path(spec.origin).parent), torch.version.cuda):
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
        for schema in _SCHEMAS:
            library.define(schema)  # type: ignore[no-untyped-call]  # torch's
        _declared.append(library)
    from torchvision import models

    return models


def installed_version(package: Path) -> str:
    """The version as its file says, since importing it may already fail; empty where there is none."""
    path = package / "version.py"
    found = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", path.read_text()) if path.is_file() else None
    return found.group(1) if found else ""


def needs_schemas(version: str, cuda: str | None) -> bool:
    """Whether torchvision of that version is a CUDA build beside a torch without CUDA."""
    return cuda is None and "+cu" in version
