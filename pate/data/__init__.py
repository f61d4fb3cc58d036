"""Data sets in three splits, and the disjoint partition of the private one into teachers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.extras import require_extra

if TYPE_CHECKING:
    from pate.data.arrays_file import Arrays
    from pate.data.celeba import CelebA
    from pate.data.dataset import Dataset
    from pate.data.embedded import DigitsGrid, WordNet40
    from pate.data.huggingface import HuggingFace
    from pate.data.image_folder import ImageFolder
    from pate.data.image_form import ImageForm
    from pate.data.partition import Partition
    from pate.data.pixels import Pixels
    from pate.data.preprocessing import Preprocessing
    from pate.data.split import Split
    from pate.data.table.schema import TableSchema
    from pate.data.table.table import Table

_MODULE_OF = {
    "Arrays": "arrays_file",
    "CelebA": "celeba",
    "Dataset": "dataset",
    "HuggingFace": "huggingface",
    "ImageFolder": "image_folder",
    "ImageForm": "image_form",
    "Partition": "partition",
    "Pixels": "pixels",
    "Preprocessing": "preprocessing",
    "Split": "split",
    "Table": "table.table",
    "TableSchema": "table.schema",
    **dict.fromkeys(("DigitsGrid", "WordNet40"), "embedded"),
}
# Modules that need no package beyond those of the core. The others need the packages of an extra.
_LIGHT_MODULES = (
    "arrays_file",
    "dataset",
    "image_form",
    "partition",
    "pixels",
    "preprocessing",
    "split",
)
__all__ = [
    "Arrays", "CelebA", "Dataset", "DigitsGrid", "HuggingFace", "ImageFolder", "ImageForm",
    "Partition", "Pixels", "Preprocessing", "Split", "Table", "TableSchema", "WordNet40",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULE_OF[name] not in _LIGHT_MODULES:
        require_extra(f"{__name__}.{name}", extra="predict" if name == "TableSchema" else "train")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
