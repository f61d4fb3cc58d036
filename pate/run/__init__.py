"""The code of a run of `pate-train`: its plan, its folder, its random numbers and its stages.

Begin to read with `pate.run.train`, which shows all stages of a run on one page.
"""

from pate.extras import require_extra

require_extra(__name__, "predict")
