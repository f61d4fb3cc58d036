"""The reader of the user's own copy of CelebA."""

from pate.data.celeba.celeba import CelebA

__all__ = ["CelebA"]
