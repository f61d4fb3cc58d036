"""Apps for Flower (extra `flower`): a ClientApp for holders, a ServerApp for the aggregator. Loaded when they run."""

from pate.federated.flower.holder_app import holder_app, secure_holder_app
from pate.federated.flower.messages import holder_name
from pate.federated.flower.release_app import release_app
from pate.federated.flower.rounds_app import rounds_app
from pate.federated.flower.summed_app import summed_app

__all__ = ["holder_app", "holder_name", "release_app", "rounds_app", "secure_holder_app", "summed_app"]
