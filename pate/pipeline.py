"""`pate.pipeline.train` is `pate.run.train.train`."""

from pate.run.train import train as train
