"""Real pictures at CelebA's size: icons of open sets, drawn once by `scripts/build_icons.py`."""

from pate.data.icons.icons import Icons

__all__ = ["Icons"]
