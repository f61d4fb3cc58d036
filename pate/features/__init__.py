"""Public representations of pictures: fitted on a public pool or on nothing, between data and teachers."""

from pate.features.backbone import Backbone
from pate.features.extracted_form import ExtractedForm
from pate.features.extractor import Extractor
from pate.features.featured_data import FeaturedData
from pate.features.features import Features, NoFeatures
from pate.features.patches import Patches
from pate.features.public_pictures import PublicPictures

__all__ = [
    "Backbone",
    "ExtractedForm",
    "Extractor",
    "FeaturedData",
    "Features",
    "NoFeatures",
    "Patches",
    "PublicPictures",
]
