"""One run: its plan, its folder, its randomness, and its stages."""

from pate.extras import require_extra

require_extra(__name__, "predict")
