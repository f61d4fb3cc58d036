"""What the settings of a release are called where a user gives them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SettingNames:
    """How a command or class spells its settings; `{}` stands for the value.

    Attributes:
        num_teachers: T.
        target_epsilon: what the release may cost.
        num_queries: Q.
        noise: a field of the aggregator, `{}` its name and value.
        target_delta: the delta.
        allow_useless: what lets a release pass that tells nothing.
    """

    num_teachers: str = "num_teachers={}"
    target_epsilon: str = "target_epsilon={}"
    num_queries: str = "num_queries={}"
    noise: str = "aggregator.{}"
    target_delta: str = "target_delta={}"
    allow_useless: str = "allow_useless=true"


OF_TRAINING = SettingNames(num_teachers="teacher.num_teachers={}")
"""As `pate-train` spells them."""
