"""Data sets in three splits, and the disjoint partition of the private one into teachers."""

from pate.data.arrays_file import Arrays
from pate.data.celeba import CelebA
from pate.data.dataset import Dataset, LoadsInStages, Pixels, Preprocessing, Split
from pate.data.digits_grid import DigitsGrid
from pate.data.face_copy import FaceCopy
from pate.data.huggingface import HuggingFace
from pate.data.icons import Icons
from pate.data.image_folder import ImageFolder
from pate.data.image_form import ImageForm
from pate.data.partition import Partition
from pate.data.synth_faces import SynthFaces
from pate.data.table import Table, TableSchema
from pate.data.wordnet40 import WordNet40
from pate.data.yeast import Yeast

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
    "LoadsInStages",
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
