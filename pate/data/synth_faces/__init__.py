"""The stand-in for CelebA: cartoon faces, drawn in memory or written in its files."""

from pate.data.synth_faces.face_copy import FaceCopy
from pate.data.synth_faces.synth_faces import SynthFaces

__all__ = ["FaceCopy", "SynthFaces"]
