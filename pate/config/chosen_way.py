"""What is taken for tables and pictures where no teacher is named: a teacher for each record, on public features."""

from __future__ import annotations

from collections.abc import Sequence

from pate.config.overlay import given_words

_PICTURES = ("celeba", "icons", "image_folder", "synth_faces")
_TABLES = ("table",)
_FEATURES = "features=patches"
_WAY = {"teacher": "kernel", "aggregator": "centered_votes", "accountant": "exact", "student": "low_rank"}


def chosen_way(words: Sequence[str], command: str) -> tuple[str, ...]:
    """What a command line leaves open, for the data sets that do best by it; nothing for others.

    Where `teacher=`, `features=` or an experiment is named, nothing is chosen: `teacher=cnn` is the papers' way. Where
    only settings of teachers or an aggregator are given, features are chosen for pictures and no more.

    Args:
        words: of the command line.
        command: train or compare.

    >>> chosen_way(["data=synth_faces", "aggregator=gaussian_votes"], "train")
    ('features=patches',)
    >>> chosen_way(["data=celeba", "teacher=cnn"], "train")
    ()
    >>> chosen_way(["data=table", "student=mlp"], "train")
    ('teacher=kernel', 'aggregator=centered_votes', 'accountant=exact')
    """
    if command not in ("train", "compare"):
        return ()
    said = given_words(words)
    roots = {key.partition(".")[0] for key in said}
    named = {"teacher", "teacher._target_", "features", "features._target_", "experiment"} & said.keys()
    if said.get("data") not in (*_PICTURES, *_TABLES) or named:
        return ()
    features = (_FEATURES,) if said["data"] in _PICTURES else ()
    if command == "compare" or {"teacher", "aggregator"} & roots:
        return features
    return (*features, *(f"{group}={name}" for group, name in _WAY.items() if group not in roots))


def said_of_way(chosen: Sequence[str]) -> str:
    """What was chosen, in a line."""
    instead = "teacher=cnn is the papers' way, features=none the pictures'"
    if _FEATURES not in chosen:
        instead = "teacher=linear and aggregator=gaussian_votes are a plainer way"
    return f"no teacher is named: {' '.join(chosen)}; {instead}"
