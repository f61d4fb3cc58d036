"""Recomputes the published numbers of a release folder without any code of pate, and says "holds" or what differs.

`python scripts/verify_release.py release/` needs Python and numpy. It checks

* that the files of the folder are those of `manifest.json`, byte for byte;
* that `privacy.json`, both cards and `config.yaml` state the same numbers;
* that the released arrays have as many queries, answers and labels as stated;
* epsilon and the bounds on attacks of centered votes, whose release is one Gaussian sum, from the noise alone;
* for other mechanisms, whose epsilon takes an accountant, that the bounds on attacks are no weaker than those that
  follow from epsilon and delta;
* the epsilon of released scores, from their noise, and that each score lies in its interval and on both cards.

The exit code is 0 if everything holds, 1 if something differs, and 2 if the folder cannot be read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

_GAUSSIAN = "CenteredVotes"  # the mechanism whose release is one Gaussian sum
_SCORES = ("micro_f1", "accuracy", "macro_f1", "mean_average_precision", "calibration_error")
_MOST_DRAWS = 16  # of one release, where lost ones were drawn again
_ROUNDING = 1e-9
_NORMAL = NormalDist()


def differences(folder: Path) -> Iterator[str]:
    """Yields a line for each number of a release that does not hold."""
    statement = json.loads((folder / "privacy.json").read_text(encoding="utf-8"))
    yield from _files(folder)
    yield from _cards(folder, statement)
    yield from _settings(folder, statement)
    yield from _arrays(folder, statement)
    if statement["mechanism"] == _GAUSSIAN and not statement.get("classes"):
        yield from _gaussian_price(statement)
    else:
        yield from _attacks_by_epsilon(statement)
    if "scores" in statement:
        yield from _scores(folder, statement["scores"])


def _scores(folder: Path, scores: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each released score that does not hold, and for a price that is not that of the noise."""
    exact = _gaussian_epsilon(1 / scores["noise_multiplier"], scores["delta"])
    if not _is_rounded_up(scores["epsilon"], exact):
        yield f"privacy.json: scores.epsilon is {scores['epsilon']}, and the noise gives {exact:.4f}"
    named = {name: score for name, score in scores.items() if name in _SCORES}
    for column, of_values in scores["subgroups"].items():
        named |= {f"subgroups.{column}.{value}": score for value, score in of_values.items()}
    for name, score in named.items():
        low, value, high = score["low"], score["value"], score["high"]
        if not 0 <= low <= value <= high <= 1:
            yield f"privacy.json: scores.{name} is {value}, outside of its interval"
        ends = f"{math.floor(low * 1000) / 1000:.3f} to {math.ceil(high * 1000) / 1000:.3f}"
        for card in folder.glob("*.md"):
            if f"| {value:.3f} ({ends}) |" not in card.read_text(encoding="utf-8"):
                yield f"{card.name}: does not state scores.{name}, {value:.3f} ({ends})"


def _files(folder: Path) -> Iterator[str]:
    """Yields a line for each file that is missing, new or changed."""
    digests = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"]
    found = {path.relative_to(folder).as_posix(): path for path in files}
    for name in sorted(digests.keys() | found.keys()):
        if name not in found:
            yield f"{name}: in manifest.json, and not in the folder"
        elif name not in digests:
            yield f"{name}: in the folder, and not in manifest.json"
        elif hashlib.sha256(found[name].read_bytes()).hexdigest() != digests[name]:
            yield f"{name}: another SHA-256 than in manifest.json"


def _cards(folder: Path, statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each number of the cards that is not that of `privacy.json`."""
    card = (folder / "privacy_card.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (.+?) \| (.*) \|$", card, flags=re.MULTILINE))
    stated = {
        "epsilon": statement["epsilon"],
        "delta": statement["delta"],
        "queries priced": statement["num_queries"],
        "queries answered": statement["num_answered"],
        "labels per query": statement["num_labels"],
        "teachers": statement["num_teachers"],
    }
    stated |= {f"mechanism.{name}": value for name, value in statement["parameters"].items()}
    if "scores" in statement:
        stated["epsilon of the scores"] = statement["scores"]["epsilon"]
    for name, value in stated.items():
        if not _is_same(rows.get(name), value):
            yield f"privacy_card.md: {name} is {rows.get(name)}, and {value} in privacy.json"
    for name, share in _percentages(statement).items():
        if name in rows and not _is_same(rows[name].rstrip("%"), share):
            yield f"privacy_card.md: {name} is {rows[name]}, and {share:g}% in privacy.json"
    if (folder / "README.md").exists():
        text = (folder / "README.md").read_text(encoding="utf-8")
        guarantee = re.search(r"epsilon <= ([\d.]+) at delta = ([\d.e-]+)", text)
        terms = (statement["epsilon"], statement["delta"])
        if guarantee is None and terms[0] != "inf":
            yield "README.md: states no epsilon"
        elif guarantee is not None and not all(map(_is_same, guarantee.groups(), terms)):
            yield f"README.md: epsilon {guarantee[1]} at delta {guarantee[2]} is not that of privacy.json"


def _percentages(statement: dict[str, Any]) -> dict[str, float]:
    """Returns the bounds on attacks by their names on the card, in percent and rounded up as there."""
    name = "members that attacks find with {:g}% false alarms, at most"
    found = (statement.get("attacks") or {}).get("found", {}).items()
    shares = {name.format(100 * float(rate)): 100 * share for rate, share in found}
    return {n: math.ceil(10 * v - _ROUNDING) / 10 if v >= 1 else v for n, v in shares.items()}


def _settings(folder: Path, statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each setting in `config.yaml` that is not as `privacy.json` states it."""
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    top = dict(re.findall(r"^(\w+): (.+)$", text, flags=re.MULTILINE))
    block = re.search(r"^aggregator:\n((?:[ ].*\n)*)", text, flags=re.MULTILINE)
    aggregator = dict(re.findall(r"^  (\w+): (.+)$", block[1] if block else "", flags=re.MULTILINE))
    stated = {"target_delta": statement["delta"], "num_queries": statement["num_queries"]}
    for name, value in stated.items():
        if name in top and not _is_same(top[name], value):
            yield f"config.yaml: {name} is {top[name]}, and {value} in privacy.json"
    for name, value in statement["parameters"].items():
        if name in aggregator and not _is_same(aggregator[name], value):
            yield f"config.yaml: aggregator.{name} is {aggregator[name]}, and {value} in privacy.json"


def _arrays(folder: Path, statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each number of queries, answers and labels that the released arrays do not have."""
    with np.load(folder / "release.npz", allow_pickle=False) as arrays:
        labels = arrays["labels"]
        answered = arrays["answered"]
    found = {"num_labels": labels.shape[1], "num_answered": int(answered.sum())}
    for name, value in found.items():
        if value != statement[name]:
            yield f"privacy.json: {name} is {statement[name]}, and release.npz has {value}"
    if not len(labels) == len(answered) <= statement["num_queries"]:
        yield f"privacy.json: num_queries is {statement['num_queries']}, and release.npz has {len(labels)}"


def _gaussian_price(statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for epsilon and each bound on attacks that are not those of the Gaussian noise."""
    one_draw = 1 / statement["parameters"]["noise_multiplier"]
    candidates = [one_draw * math.sqrt(draws) for draws in range(1, _MOST_DRAWS + 1)]
    epsilon = float(statement["epsilon"])
    exact = {mu: _gaussian_epsilon(mu, float(statement["delta"])) for mu in candidates}
    matching = [mu for mu in candidates if _is_rounded_up(epsilon, exact[mu])]
    if not matching:
        yield f"privacy.json: epsilon is {epsilon:g}, and the noise gives {exact[one_draw]:.4f}"
        return
    mu = matching[0]
    yield from _compared_attacks(statement, lambda a: _normal_cdf(_NORMAL.inv_cdf(a) + mu))
    attacks = statement.get("attacks")
    if attacks:
        values = {"gdp_mu": mu, "advantage": 2 * _normal_cdf(mu / 2) - 1}
        for name, value in values.items():
            if not value * (1 - _ROUNDING) <= float(attacks[name]) <= value * 1.01 + 0.01:
                yield f"privacy.json: attacks.{name} is {attacks[name]}, and the noise gives {value:.4f}"


def _is_rounded_up(epsilon: float, exact: float) -> bool:
    step = 0.01 if epsilon >= 1 else 0.0001
    return exact * (1 - _ROUNDING) <= epsilon <= exact * (1 + 1e-3) + step


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Returns the epsilon of a Gaussian release with sensitivity / std = mu (Balle & Wang 2018), by bisection."""

    def delta_at(epsilon: float) -> float:
        far = math.exp(epsilon) * _normal_cdf(-epsilon / mu - mu / 2) if epsilon < 700 else 0.0
        return _normal_cdf(-epsilon / mu + mu / 2) - far

    low, high = 0.0, mu * (mu / 2 + 40)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


def _attacks_by_epsilon(statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each bound on attacks that is weaker than what follows from epsilon and delta."""
    delta = float(statement["delta"])
    growth = math.exp(min(float(statement["epsilon"]), 700.0))

    def most_found(alpha: float) -> float:
        return min(growth * alpha + delta, 1 - (1 - delta - alpha) / growth, 1.0)

    for name, alpha, share in _shares(statement):
        if share > most_found(alpha) * 1.01:
            yield f"privacy.json: attacks.{name} is {share:g}, and epsilon and delta give {most_found(alpha):.4g}"
        if share < alpha:
            yield f"privacy.json: attacks.{name} is {share:g}, below what a blind guess finds"


def _compared_attacks(statement: dict[str, Any], curve: Callable[[float], float]) -> Iterator[str]:
    """Yields a line for each bound on attacks that is not that of a curve, rounded up to three digits."""
    for name, alpha, share in _shares(statement):
        if not curve(alpha) * (1 - _ROUNDING) <= share <= curve(alpha) * 1.011:
            yield f"privacy.json: attacks.{name} is {share:g}, and the noise gives {curve(alpha):.4g}"


def _shares(statement: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Yields the name, the rate without knowledge and the stated bound of each share that attacks find or guess."""
    for kind in ("found", "guessed"):
        for rate, share in (statement.get("attacks") or {}).get(kind, {}).items():
            yield f"{kind}.{rate}", float(rate), float(share)


def _is_same(text: object, value: object) -> bool:
    """Returns True if a text of a card stands for a value of `privacy.json`."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and text is not None:
        try:
            return math.isclose(float(str(text)), value, rel_tol=1e-12)
        except ValueError:
            return False
    if value == "inf":
        return text is not None and str(text).startswith("inf")
    return str(text).replace("\\", "").lower() == str(value).lower()


def main(arguments: list[str]) -> int:
    """Prints "holds" or what differs, and returns the exit code."""
    folder = Path(arguments[0] if arguments else "release")
    try:
        lines = list(differences(folder))
        mechanism = json.loads((folder / "privacy.json").read_text(encoding="utf-8"))["mechanism"]
    except (OSError, KeyError, ValueError, TypeError) as error:
        sys.stderr.write(f"{folder}: cannot be verified: {type(error).__name__}: {error}\n")
        return 2
    note = "" if mechanism == _GAUSSIAN else f" (the epsilon of {mechanism} takes pate-account)"
    sys.stdout.write("\n".join(lines or [f"holds{note}"]) + "\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
