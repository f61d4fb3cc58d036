"""Public representations of pictures and texts: fitted on a public pool or on nothing, between data and teachers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.validation import require_extra

if TYPE_CHECKING:
    from pate.features.backbone import Backbone
    from pate.features.features import Extractor, Features, Kernel, NoFeatures
    from pate.features.patches import Patches
    from pate.features.text import Text

require_extra(__name__, "train")

_MODULE_OF = {
    "Backbone": "backbone",
    "Extractor": "features",
    "Features": "features",
    "Kernel": "features",
    "NoFeatures": "features",
    "Patches": "patches",
    "Text": "text",
}
__all__ = ["Backbone", "Extractor", "Features", "Kernel", "NoFeatures", "Patches", "Text"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
