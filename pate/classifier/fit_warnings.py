"""Warnings about fits that are allowed but rarely intended."""


class DoubtfulPlan(UserWarning):
    """A warning that the noise of this fit is probably larger than the differences between votes."""


class SeededNoise(UserWarning):
    """A warning that the noise came from a seed: it gives no privacy against people who know the seed."""


class UngroupedFit(UserWarning):
    """A warning that a clone was fitted without groups, as searches do, so that its epsilon is for one row."""


class ClassesFromLabels(UserWarning):
    """A warning that the set of classes was read from private labels, and counts as public."""


class RepeatedRelease(UserWarning):
    """A warning that an earlier fit made a release of the same private records."""


class PublicGroups(UserWarning):
    """A warning that `public_fraction` declares groups public whose rows are all outside the last share of the rows."""


class SharedRows(UserWarning):
    """A warning that public samples are also among the private records."""
