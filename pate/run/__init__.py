"""A run: its plan, its folder, its random numbers and its stages; `pate.run.train` is the page to begin with."""

from pate.extras import require_extra

require_extra(__name__, "predict")
