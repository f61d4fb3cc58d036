"""Networks for images and their training, which teachers and students share."""

from pate.extras import require_extra

require_extra(__name__, "predict")
