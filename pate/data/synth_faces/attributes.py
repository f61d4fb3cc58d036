"""Attribute vectors of cartoon faces: a Gaussian copula, thresholds, and rules that make them consistent."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from pate.data.synth_faces.population import FACTORS, LOADINGS, NAMES, NUM_PHOTOGRAPHS, POSITIVES

BLOCK = 256
"""Faces that share a generator; face i is row i % BLOCK of block i // BLOCK."""

_CALIBRATION_SIZE, _CALIBRATION_SEED, _CALIBRATION_STEPS = 40_000, 202_599, 25
_DECIMALS = 3

_COLUMN = {name: column for column, name in enumerate(NAMES)}
_HAIR_COLORS = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")
_HAIR_SHAPES = ("Straight_Hair", "Wavy_Hair")
_BEARDS = ("Goatee", "Mustache", "Sideburns")


def block_generator(seed: int, block: int, purpose: int) -> np.random.Generator:
    """The generator of a block; purposes (attributes, shapes) have streams of their own."""
    return np.random.default_rng((seed, block, purpose))


def draw_attributes(seed: int, block: int) -> NDArray[np.bool_]:
    """The attributes of one block of faces, bool `[BLOCK, 40]`, in the order of `NAMES`."""
    return consistent(_latent(BLOCK, block_generator(seed, block, 0)) - thresholds())


@cache
def thresholds() -> NDArray[np.float64]:
    """Where each latent variable is cut, `[40]`, so that marginals *after* the rules are those of `POSITIVES`.

    The rules take attributes away and give some, so the cuts that would be right without them are moved, on a
    fixed sample, until the marginals are right. They are rounded, to be the same on every machine.
    """
    from scipy.special import ndtri  # not when `pate.data` is imported

    wanted = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    latent = _latent(_CALIBRATION_SIZE, np.random.default_rng(_CALIBRATION_SEED))
    share = wanted.copy()
    for _ in range(_CALIBRATION_STEPS):
        found = consistent(latent + ndtri(share)).mean(axis=0)
        odds = share / (1 - share) * (wanted / (1 - wanted)) * ((1 - found) / np.maximum(found, 1e-4))
        share = np.clip(odds / (1 + odds), 1e-4, 1 - 1e-4)
    cuts: NDArray[np.float64] = np.round(-ndtri(share), _DECIMALS)
    return cuts


def consistent(excess: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Attributes from latent variables minus thresholds, `[n, 40]`, after the rules.

    Of several hair colors the one with the largest excess stays, and of straight and wavy likewise. The bald have no
    hair of any color or shape, no bangs and no receding hairline, which also excludes bangs. Women are not bald and
    have no beard or shadow of one. Who has a goatee, a moustache or sideburns has a beard.
    """
    bits = excess > 0
    for rivals in (_HAIR_COLORS, _HAIR_SHAPES):
        columns = [_COLUMN[name] for name in rivals]
        best = excess[:, columns].argmax(axis=1)[:, None] == np.arange(len(columns))
        bits[:, columns] &= best
    male = bits[:, _COLUMN["Male"]]
    bits[:, _COLUMN["Bald"]] &= male
    bald = bits[:, _COLUMN["Bald"]]
    bits[:, [_COLUMN[name] for name in (*_HAIR_COLORS, *_HAIR_SHAPES, "Bangs", "Receding_Hairline")]] &= ~bald[:, None]
    bits[:, _COLUMN["Bangs"]] &= ~bits[:, _COLUMN["Receding_Hairline"]]
    beards = [_COLUMN[name] for name in _BEARDS]
    bits[:, [*beards, _COLUMN["5_o_Clock_Shadow"]]] &= male[:, None]
    bits[:, _COLUMN["No_Beard"]] = (bits[:, _COLUMN["No_Beard"]] | ~male) & ~bits[:, beards].any(axis=1)
    return bits


def _latent(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Standard normal variables `[count, 40]`, correlated through the factors."""
    loadings = _loadings()
    own = np.sqrt(1 - (loadings**2).sum(axis=1))
    factors = rng.standard_normal((count, len(FACTORS)))
    return np.asarray(factors @ loadings.T + own * rng.standard_normal((count, len(NAMES))))


@cache
def _loadings() -> NDArray[np.float64]:
    """`[40, num_factors]`."""
    return np.array([[LOADINGS.get(name, {}).get(factor, 0.0) for factor in FACTORS] for name in NAMES])
