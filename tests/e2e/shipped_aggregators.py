"""Makes the aggregators of `conf/aggregator/` with settings that suit the few teachers of the small run."""

from dataclasses import replace
from functools import cache

from hydra import compose, initialize_config_dir

from pate.aggregators import Aggregator
from pate.config import CONFIG_FOLDER, build_aggregator, register_configs
from pate.votes.source import CenterableVotes


@cache
def shipped_aggregator(words: str) -> Aggregator:
    """Returns an aggregator of `conf/aggregator/`, with settings that suit few teachers.

    Args:
        words: the name of its YAML file; settings as on the command line may follow, each after a blank.
    """
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        node = compose("account", f"aggregator={words}".split()).aggregator
    aggregator = build_aggregator(node, adjacency="replace_one")
    small = {
        "k": 2,
        "first_queries": 10,
        "target_hits": 15,
        "round_size": 10,
        "max_size": 3,
        "vote_clip": 2,
    }
    changes = {
        field: value
        for field, value in small.items()
        if getattr(aggregator, field, None) is not None
    }
    return replace(aggregator, **changes)


def form_for(aggregator: Aggregator) -> str:
    """Returns the form of votes that the aggregator reads: clipped, confidences or bits."""
    if getattr(aggregator, "norm", "") == "l1":  # keeps each teacher's most confident votes
        return "clipped"
    return "confidences" if aggregator.reads is CenterableVotes else "bits"
