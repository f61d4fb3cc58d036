"""Cartoon faces with CelebA's attributes: the attributes, the drawing, and a folder in CelebA's layout."""
