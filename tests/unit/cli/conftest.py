"""Configurations composed as a command composes them."""

from tests.config.conftest import composed

__all__ = ["composed"]
