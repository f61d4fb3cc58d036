"""Warnings of a fit: what is allowed, but rarely wanted."""


class DoubtfulPlan(UserWarning):
    """Warning: this fit is allowed, but its noise probably hides the votes."""


class SeededNoise(UserWarning):
    """Warning: noise came from a seed, and protects nobody who knows the seed."""


class UngroupedFit(UserWarning):
    """Warning: a fit of a clone, as a search makes it, had no groups, so its epsilon is for one row."""


class RepeatedRelease(UserWarning):
    """Warning: an earlier fit released something about the same private records."""


class PublicGroups(UserWarning):
    """Warning: `public_fraction` declares groups public that have no row in that share of the rows."""


class SharedRows(UserWarning):
    """Warning: public samples are among the private records."""
