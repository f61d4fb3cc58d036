"""Models, a family a file: what teachers learn, what students learn, and how an ensemble is trained."""

from pate.validation import require_extra

require_extra(__name__, "predict")
