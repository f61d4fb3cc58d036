"""What is taken for data sets of pictures where no teacher is named: public features, and a teacher for each record."""

from __future__ import annotations

from collections.abc import Sequence

from pate.config.overlay import given_words

_DATA = ("celeba", "icons", "synth_faces")
_FEATURES = "features=patches"
_WAY = {"teacher": "kernel", "aggregator": "centered_votes", "accountant": "exact", "student": "low_rank"}


def picture_way(words: Sequence[str], command: str) -> tuple[str, ...]:
    """What a command line leaves open, for the data sets that do best by it; nothing for others.

    Where `teacher=`, `features=` or an experiment is named, nothing is chosen: `teacher=cnn` is the papers' way. Where
    only settings of teachers or an aggregator are given, features are chosen for them and no more.

    Args:
        words: of the command line.
        command: train or compare.

    >>> picture_way(["data=synth_faces", "aggregator=gaussian_votes"], "train")
    ('features=patches',)
    >>> picture_way(["data=celeba", "teacher=cnn"], "train")
    ()
    """
    if command not in ("train", "compare"):
        return ()
    said = given_words(words)
    roots = {key.partition(".")[0] for key in said}
    named = {"teacher", "teacher._target_", "features", "features._target_", "experiment"} & said.keys()
    if said.get("data") not in _DATA or named:
        return ()
    if command == "compare" or {"teacher", "aggregator"} & roots:
        return (_FEATURES,)
    return (_FEATURES, *(f"{group}={name}" for group, name in _WAY.items() if group not in roots))


def said_of_way(chosen: Sequence[str]) -> str:
    """What was chosen, in a line."""
    return f"no teacher is named: {' '.join(chosen)}; teacher=cnn is the papers' way, features=none the pictures'"
