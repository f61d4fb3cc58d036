"""A short import path of the function that runs a plan: `pate.pipeline.train` is `pate.run.train.train`."""

from pate.extras import require_extra

require_extra(__name__, "train")

from pate.run.train import train as train
