"""Networks for images and how they are trained: beneath teachers and students, who both use them."""

from pate.extras import require_extra

require_extra(__name__, "predict")
