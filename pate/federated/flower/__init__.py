"""Apps for Flower (extra `flower`): a ClientApp for holders, a ServerApp for the aggregator."""

from pate.validation import require_extra

require_extra(__name__, "flower")

from pate.federated.flower.holder_app import holder_app, secure_holder_app
from pate.federated.flower.messages import holder_name
from pate.federated.flower.server_apps import release_app, rounds_app, summed_app

__all__ = ["holder_app", "holder_name", "release_app", "rounds_app", "secure_holder_app", "summed_app"]
