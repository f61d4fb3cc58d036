"""Releases from counts that carry their noise before they are added up."""
