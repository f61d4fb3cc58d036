"""What is known of CelebA's attributes: how many of its 202,599 photographs have each, and what goes together."""

from __future__ import annotations

NUM_PHOTOGRAPHS = 202_599

POSITIVES = {
    "5_o_Clock_Shadow": 22516,
    "Arched_Eyebrows": 54090,
    "Attractive": 103833,
    "Bags_Under_Eyes": 41446,
    "Bald": 4547,
    "Bangs": 30709,
    "Big_Lips": 48785,
    "Big_Nose": 47516,
    "Black_Hair": 48472,
    "Blond_Hair": 29983,
    "Blurry": 10312,
    "Brown_Hair": 41572,
    "Bushy_Eyebrows": 28803,
    "Chubby": 11663,
    "Double_Chin": 9459,
    "Eyeglasses": 13193,
    "Goatee": 12716,
    "Gray_Hair": 8499,
    "Heavy_Makeup": 78390,
    "High_Cheekbones": 92189,
    "Male": 84437,
    "Mouth_Slightly_Open": 97942,
    "Mustache": 8417,
    "Narrow_Eyes": 23329,
    "No_Beard": 169158,
    "Oval_Face": 57567,
    "Pale_Skin": 8701,
    "Pointy_Nose": 56210,
    "Receding_Hairline": 16163,
    "Rosy_Cheeks": 13315,
    "Sideburns": 11449,
    "Smiling": 97669,
    "Straight_Hair": 42222,
    "Wavy_Hair": 64744,
    "Wearing_Earrings": 38276,
    "Wearing_Hat": 9818,
    "Wearing_Lipstick": 95715,
    "Wearing_Necklace": 24913,
    "Wearing_Necktie": 14732,
    "Young": 156734,
}
"""Photographs that have the attribute, in the order of CelebA's lists."""

NAMES = tuple(POSITIVES)

FACTORS = ("manly", "made_up", "merry", "young", "heavy", "bearded")

LOADINGS: dict[str, dict[str, float]] = {
    "Male": {"manly": 0.99},
    "Wearing_Lipstick": {"manly": -0.95, "made_up": 0.29},
    "Heavy_Makeup": {"manly": -0.87, "made_up": 0.47},
    "Attractive": {"manly": -0.40, "made_up": 0.35, "young": 0.50, "heavy": -0.30},
    "Arched_Eyebrows": {"manly": -0.50, "made_up": 0.35},
    "Rosy_Cheeks": {"manly": -0.35, "made_up": 0.40, "merry": 0.20},
    "Wearing_Earrings": {"manly": -0.55, "made_up": 0.15},
    "Wearing_Necklace": {"manly": -0.50},
    "Wearing_Necktie": {"manly": 0.60, "young": -0.35},
    "Blond_Hair": {"manly": -0.50, "made_up": 0.15},
    "Wavy_Hair": {"manly": -0.50, "made_up": 0.20},
    "Pointy_Nose": {"manly": -0.25, "made_up": 0.20},
    "Bangs": {"manly": -0.25, "young": 0.15},
    "Big_Nose": {"manly": 0.40, "young": -0.35, "heavy": 0.30},
    "Bags_Under_Eyes": {"manly": 0.35, "young": -0.35, "heavy": 0.15},
    "Bushy_Eyebrows": {"manly": 0.40},
    "Sideburns": {"manly": 0.60, "bearded": 0.70},
    "Goatee": {"manly": 0.60, "bearded": 0.70},
    "Mustache": {"manly": 0.60, "bearded": 0.60, "young": -0.15},
    "5_o_Clock_Shadow": {"manly": 0.65, "bearded": 0.30},
    "No_Beard": {"manly": -0.65, "bearded": -0.70},
    "Smiling": {"merry": 0.97},
    "High_Cheekbones": {"merry": 0.90, "made_up": 0.12},
    "Mouth_Slightly_Open": {"merry": 0.77},
    "Oval_Face": {"merry": 0.25, "made_up": 0.15, "heavy": -0.20},
    "Narrow_Eyes": {"merry": 0.20},
    "Young": {"young": 0.90},
    "Gray_Hair": {"young": -0.75, "manly": 0.20},
    "Bald": {"manly": 0.65, "young": -0.35},
    "Receding_Hairline": {"manly": 0.25, "young": -0.45},
    "Eyeglasses": {"manly": 0.30, "young": -0.40},
    "Wearing_Hat": {"manly": 0.30},
    "Chubby": {"heavy": 0.86, "young": -0.20, "manly": 0.15},
    "Double_Chin": {"heavy": 0.86, "young": -0.25, "manly": 0.12},
}
"""How an attribute's latent variable depends on the factors; what is not listed is independent. Chosen by hand so that
the correlations below come out."""

CORRELATIONS = {
    ("Heavy_Makeup", "Wearing_Lipstick"): 0.80,
    ("Male", "Wearing_Lipstick"): -0.79,
    ("Male", "Heavy_Makeup"): -0.67,
    ("Smiling", "High_Cheekbones"): 0.68,
    ("Smiling", "Mouth_Slightly_Open"): 0.53,
    ("Chubby", "Double_Chin"): 0.53,
    ("Male", "No_Beard"): -0.52,
}
"""The strongest correlations (phi, about) of pairs of attributes."""
