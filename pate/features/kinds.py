"""Kinds of extractors by the names that files use."""

from collections.abc import Mapping

from pate.features.backbone import BackboneExtractor
from pate.features.extractor import Extractor
from pate.features.patches import PatchExtractor

EXTRACTOR_KINDS: Mapping[str, type[Extractor]] = {
    PatchExtractor.kind: PatchExtractor,
    BackboneExtractor.kind: BackboneExtractor,
}
