"""Attribute vectors with CelebA's names, marginals and main correlations.

Attributes come from a Gaussian copula over a few factors. Each latent variable is cut at a threshold, and rules then
make a face consistent: one hair color and none for the bald, a goatee is a beard. Marginals are within 0.02 of those
of CelebA's attribute list, the correlations in `CORRELATIONS` within 0.15. All tables stand in `faces.yaml`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pate.array_types import BoolArray, FloatArray

NUM_PHOTOGRAPHS = 202_599  # of CelebA
TABLES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("faces.yaml").read_text(encoding="utf-8")
)
POSITIVES: dict[str, int] = TABLES["positives"]
THRESHOLDS: dict[str, float] = TABLES["thresholds"]
LOADINGS: dict[str, dict[str, float]] = TABLES["loadings"]
CORRELATIONS: dict[tuple[str, ...], float] = {
    tuple(pair.split()): phi for pair, phi in TABLES["correlations"].items()
}
HAIR_COLORS: dict[str, list[int]] = TABLES["hair"]
NAMES = tuple(POSITIVES)
BLOCK = 256  # faces that share a generator; face i is row i % BLOCK of block i // BLOCK
_STREAM = 0  # of the generators: behind seed and block; the drawing has others
_COLUMN = {name: column for column, name in enumerate(NAMES)}
_HAIR_SHAPES = ("Straight_Hair", "Wavy_Hair")
_BEARDS = ("Goatee", "Mustache", "Sideburns")


def draw_attributes(seed: int, block: int) -> BoolArray:
    """Draws the attributes of one block of faces, bool `[BLOCK, 40]`, in the order of `NAMES`."""
    latent = _latent(BLOCK, np.random.default_rng((seed, block, _STREAM)))
    return consistent(latent - np.array([THRESHOLDS[name] for name in NAMES]))


def consistent(excess: FloatArray) -> BoolArray:
    """Returns attributes from latent variables minus thresholds, `[n, 40]`, after the rules.

    Of several hair colors the one with the largest excess stays, and of straight and wavy likewise. The bald have no
    hair of any color or shape, no bangs and no receding hairline, which also excludes bangs. Women are not bald and
    have no beard or shadow of one. Who has a goatee, a moustache or sideburns has a beard.
    """
    bits = excess > 0
    for rivals in (tuple(HAIR_COLORS), _HAIR_SHAPES):
        columns = [_COLUMN[name] for name in rivals]
        best = excess[:, columns].argmax(axis=1)[:, None] == np.arange(len(columns))
        bits[:, columns] &= best
    male = bits[:, _COLUMN["Male"]]
    bits[:, _COLUMN["Bald"]] &= male
    bald = bits[:, _COLUMN["Bald"]]
    hair = (*HAIR_COLORS, *_HAIR_SHAPES, "Bangs", "Receding_Hairline")
    bits[:, [_COLUMN[name] for name in hair]] &= ~bald[:, None]
    bits[:, _COLUMN["Bangs"]] &= ~bits[:, _COLUMN["Receding_Hairline"]]
    beards = [_COLUMN[name] for name in _BEARDS]
    bits[:, [*beards, _COLUMN["5_o_Clock_Shadow"]]] &= male[:, None]
    bearded = bits[:, beards].any(axis=1)
    bits[:, _COLUMN["No_Beard"]] = (bits[:, _COLUMN["No_Beard"]] | ~male) & ~bearded
    return bits


def _latent(count: int, rng: np.random.Generator) -> FloatArray:
    """Draws standard normal variables `[count, 40]`, correlated through the factors."""
    loadings = np.array(
        [[of_factor.get(name, 0.0) for of_factor in LOADINGS.values()] for name in NAMES]
    )
    own_share = np.sqrt(1 - (loadings**2).sum(axis=1))
    factors = rng.standard_normal((count, len(LOADINGS)))
    return np.asarray(factors @ loadings.T + own_share * rng.standard_normal((count, len(NAMES))))
