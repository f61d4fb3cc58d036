"""Public representations of pictures and texts: fitted on a public pool or on nothing, between data and teachers."""

from typing import TYPE_CHECKING

from pate.extras import lazily, require_extra

if TYPE_CHECKING:
    from pate.features.backbone import Backbone
    from pate.features.features import Extractor, Features, Kernel, NoFeatures, Text
    from pate.features.patches import Patches

require_extra(__name__, "predict")

__all__ = ["Backbone", "Extractor", "Features", "Kernel", "NoFeatures", "Patches", "Text"]

_LATER = {
    "backbone": "Backbone",
    "features": "Extractor Features Kernel NoFeatures Text",
    "patches": "Patches",
}
__getattr__ = lazily(__name__, _LATER)
