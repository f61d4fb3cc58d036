"""Data sets in three splits, and the disjoint partition of the private one into teachers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.data.arrays_file import Arrays
    from pate.data.celeba import CelebA
    from pate.data.dataset import Dataset, Pixels, Preprocessing, Split
    from pate.data.digits_grid import DigitsGrid
    from pate.data.face_copy import FaceCopy
    from pate.data.huggingface import HuggingFace
    from pate.data.icons import Icons
    from pate.data.image_folder import ImageFolder
    from pate.data.image_form import ImageForm
    from pate.data.partition import Partition
    from pate.data.synth_faces import SynthFaces
    from pate.data.table.schema import TableSchema
    from pate.data.table.table import Table
    from pate.data.wordnet40 import WordNet40
    from pate.data.yeast import Yeast

_MODULE_OF = {
    "Arrays": "arrays_file",
    "CelebA": "celeba",
    "Dataset": "dataset",
    "DigitsGrid": "digits_grid",
    "FaceCopy": "face_copy",
    "HuggingFace": "huggingface",
    "Icons": "icons",
    "ImageFolder": "image_folder",
    "ImageForm": "image_form",
    "Partition": "partition",
    "Pixels": "dataset",
    "Preprocessing": "dataset",
    "Split": "dataset",
    "SynthFaces": "synth_faces",
    "Table": "table.table",
    "TableSchema": "table.schema",
    "WordNet40": "wordnet40",
    "Yeast": "yeast",
}
__all__ = [
    "Arrays",
    "CelebA",
    "Dataset",
    "DigitsGrid",
    "FaceCopy",
    "HuggingFace",
    "Icons",
    "ImageFolder",
    "ImageForm",
    "Partition",
    "Pixels",
    "Preprocessing",
    "Split",
    "SynthFaces",
    "Table",
    "TableSchema",
    "WordNet40",
    "Yeast",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
