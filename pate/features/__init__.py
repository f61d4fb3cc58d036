"""Public representations of images and texts, which are fitted on the public pool and then given to the teachers."""

from typing import TYPE_CHECKING

from pate.extras import lazily, require_extra

if TYPE_CHECKING:
    from pate.features.backbone import Backbone
    from pate.features.extractor import Extractor
    from pate.features.features import Features, Kernel, NoFeatures
    from pate.features.patches import Patches
    from pate.features.text import Text

require_extra(__name__, "predict")

__all__ = ["Backbone", "Extractor", "Features", "Kernel", "NoFeatures", "Patches", "Text"]

_NAMES_OF_MODULE = {
    "backbone": "Backbone",
    "extractor": "Extractor",
    "features": "Features Kernel NoFeatures",
    "patches": "Patches",
    "text": "Text",
}
__getattr__ = lazily(__name__, names_of_module=_NAMES_OF_MODULE)
