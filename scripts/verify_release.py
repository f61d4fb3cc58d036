"""Recomputes the published numbers of a release folder without any code of pate, and says "holds" or what differs.

`python scripts/verify_release.py release/` needs numpy. Epsilon and the bounds on attacks follow from the stated noise:
exactly for a Gaussian sum, and else between bounds by Renyi orders and by two neighbors. The exit code is 0 if all
holds, 1 if not, 2 for a folder that cannot be read, and 3 for "not recomputed": an epsilon that is not proved here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

# The names of numbers in `privacy.json`, by their rows in the table of the card.
_NAMES_BY_ROW = {
    "epsilon": "epsilon",
    "delta": "delta",
    "queries priced": "num_queries",
    "queries answered": "num_answered",
    "labels per query": "num_labels",
    "teachers": "num_teachers",
}
_ORDERS = 1 + np.geomspace(1e-3, 1e6, 2000)
_RATES = np.geomspace(1e-9, 0.5, 2000)  # of false alarms
_normal_cdf = np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2, otypes=[float])
_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


@dataclass(frozen=True)
class _Noise:
    """The noise of `count` equal parts of a release: Gaussian sums with sensitivity / std = mu, or bits."""

    count: int = 1
    mu: float = 0.0
    pairs: Any = None  # logs of p, 1 - p, q and 1 - q of a bit on two neighbors, [4, num_pairs]
    rdp: float = 0.0  # of the table of a test
    order: float | None = None  # the only Renyi order at which the table has it
    failure_prob: float = 0.0

    def proven_epsilon(self, delta: float) -> float:
        """Returns the epsilon that Renyi orders prove (Mironov 2017; Canonne, Kamath & Steinke 2020)."""
        orders = _ORDERS if self.order is None else np.array([self.order])
        rdp = orders * self.mu**2 / 2 + self.rdp
        if self.pairs is not None:
            p, not_p, q, not_q = self.pairs[:, :, None]
            up = np.logaddexp(p + (orders - 1) * (p - q), not_p + (orders - 1) * (not_p - not_q))
            down = np.logaddexp(q + (orders - 1) * (q - p), not_q + (orders - 1) * (not_q - not_p))
            rdp = rdp + np.maximum(up, down).max(axis=0) / (orders - 1)
        log_delta = math.log(max(delta - self.count * self.failure_prob, 1e-300))
        penalty = np.log1p(-1 / orders) - (log_delta + np.log(orders)) / (orders - 1)
        return max(float((self.count * rdp + penalty).min()), 0.0)

    @cached_property
    def attained(self) -> np.ndarray:
        """The points of a curve that two neighbors attain: found members and false alarms, `[2, num_points]`."""
        if self.mu:
            mu = self.mu * math.sqrt(self.count)
            edges = np.linspace(12 + mu, -12, 100_001)
            return np.array([_normal_cdf(mu - edges), _normal_cdf(-edges)])
        if self.pairs is None or self.order:
            return np.ones((2, 1))
        logs = self.pairs[:, np.argmax(np.exp(self.pairs[0]) - np.exp(self.pairs[2]))]
        zeros = np.arange(self.count + 1)
        factorials = np.append(0.0, np.cumsum(np.log(zeros[1:])))
        choices = factorials[-1] - factorials - factorials[::-1]
        return np.cumsum(np.exp(choices + logs.reshape(2, 2) @ [zeros[::-1], zeros]), axis=1)

    def least_epsilon(self, delta: float) -> float:
        """Returns the least epsilon that can be true, which is the exact one of a Gaussian sum."""
        found, alarms = np.maximum(self.attained, 1e-300)
        return max(float(np.log(np.maximum(found - delta, 1e-300) / alarms).max()), 0.0)

    def least_found(self, alarms: Any) -> Any:
        """Returns the least bounds on found members that can be true, which are exact for a Gaussian sum."""
        return np.interp(alarms, *np.insert(self.attained[::-1], 0, 0.0, axis=1))


def _threshold_bit(std: float, reach: int, threshold: float, most: int) -> np.ndarray:
    """Returns the pairs of the bit whether a count from 0 to `most` plus Gaussian noise is above a threshold."""
    low = max(threshold - 9 * std, 0)
    high = max(min(threshold + 9 * std, most) - reach, low)
    q = (np.unique(np.linspace(low, high, 1001).round()) - threshold) / std
    return np.log([_normal_cdf(sign * z) for z in (q + reach / std, q) for sign in (1, -1)])


def _pick(epsilon: float, *, is_ranged: bool) -> np.ndarray:
    """Returns the pairs of an epsilon-DP pick; those of the exponential mechanism have losses in a range."""
    up = epsilon * np.linspace(0, 1, 1001)[1:-1] if is_ranged else np.array([epsilon])
    down = epsilon - up if is_ranged else up
    p, not_q = (np.log(np.expm1(-loss) / np.expm1(-up - down)) for loss in (down, up))
    return np.stack([p, not_q - down, p - up, not_q])


def _noise_of(statement: dict[str, Any]) -> _Noise:
    """Returns the noise of a release by its mechanism and public parameters; without bounds if it is not known here."""
    given = statement["parameters"]
    queries = statement["num_queries"]
    labels = statement["num_labels"]
    teachers = statement["num_teachers"]
    moved = 2 if statement["adjacency"] == "replace_one" else 1
    is_known = statement["epsilon"] != "inf" and not statement.get("classes")
    match statement["mechanism"] if is_known else None:
        case "CenteredVotes":
            return _Noise(mu=1 / given["noise_multiplier"])
        case "GaussianVotes" | "ClippedVotes":
            count = queries * min(moved * given.get("vote_clip", labels), labels)
            if given.get("norm") == "l2":
                return _Noise(count=count, mu=1 / given["noise_std"])
            reach, threshold = given.get("teachers_reached", 1), given.get("threshold_share", 0.5)
            bit = _threshold_bit(given["noise_std"], reach, threshold * teachers, most=teachers)
            return _Noise(count=count, pairs=bit)
        case "FixedTopK":
            picks = given["k"] if given["mechanism"] in ("peeling", "permute_and_flip") else 1
            is_ranged = given["mechanism"] in ("peeling", "joint", "canonical")
            pick = _pick(given["epsilon"] / picks, is_ranged=is_ranged)
            return _Noise(count=queries * picks if given["k"] < labels else 0, pairs=pick)
        case "StableTopK" if "table_order" in given and given["selection_noise"] == "gumbel":
            pick = _pick(2 * moved / given["selection_scale"], is_ranged=True)
            table = _Noise(count=queries, rdp=given["table_budget"], order=given["table_order"])
            return replace(table, pairs=pick, failure_prob=given["failure_prob"])
    return _Noise(rdp=math.inf)


def _price(statement: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each number that the noise does not give, and for an epsilon that cannot be recomputed."""
    noise = _noise_of(statement)
    epsilon, delta = float(statement["epsilon"]), float(statement["delta"])
    for draws in range(1, 17):  # a lost release may be drawn again
        drawn = replace(noise, count=noise.count * draws)
        least, proven = drawn.least_epsilon(delta), drawn.proven_epsilon(delta)
        if "tuning" in statement:
            proven = _tuned_epsilon(drawn, statement["tuning"], delta) if noise.mu else math.inf
            least = 0.999 * proven if noise.mu else 0.0
        if epsilon <= proven * 1.001 + 0.01:
            break
    fits = _is_between(epsilon, least, proven * 1.001)
    if not fits:
        yield f"privacy.json: epsilon is {epsilon:g}, and the noise gives {least:.4f} to {proven:.4f}"
    elif draws > 1 or (not noise.mu and epsilon < proven * (1 - 1e-5)):
        bounds = f": {least:.4f} to {proven:.4f}, drawn {draws} times" if proven < math.inf else ""
        yield f"not recomputed: the epsilon {epsilon:g} of {statement['mechanism']}{bounds}"
    attacks = statement.get("attacks") if fits and "tuning" not in statement else None
    gain = math.exp(min(epsilon, 700.0))
    found = np.clip(drawn.least_found(_RATES), _RATES, 1 - 1e-12)
    mu = (_quantile(found) - _quantile(_RATES)).max()
    least_by_name = {"gdp_mu": mu, "advantage": (found - _RATES).max()}
    for name, stated in (attacks or {}).items():
        for rate, share in stated.items() if isinstance(stated, dict) else [("", float(stated))]:
            alpha = float(rate or 1)
            least = float(least_by_name.get(name, drawn.least_found(alpha)))
            high = least if noise.mu else min(gain * alpha + delta, 1 - (1 - delta - alpha) / gain)
            if not _is_between(share, least, 1.011 * high if rate or noise.mu else math.inf):
                yield f"privacy.json: attacks.{name}.{rate} is {share:g}, and the noise gives {least:.4g}"


def _tuned_epsilon(noise: _Noise, tuning: dict[str, Any], delta: float) -> float:
    """Returns the epsilon of the best of a secret number of Gaussian releases (docs/proofs/tuning.md)."""
    eta, gamma = float(tuning["eta"]) or 1e-9, float(tuning["gamma"])
    odds = gamma / (1 - gamma)
    ratio = (1 + eta) * math.log(np.divide(*noise.attained + odds).max())  # of the selection
    log_factor = -math.log1p(delta * math.expm1(eta * math.log(gamma))) / eta
    return ratio + noise.least_epsilon(math.expm1(log_factor) * odds)


def _is_between(stated: float, low: float, high: float) -> bool:
    """Returns True if a stated number lies between two others, or is the higher one rounded up."""
    return low * (1 - 1e-6) <= stated <= high + (0.01 if high >= 1 else 0.0001)


def _scores(folder: Path, scores: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each released score that does not hold, and for a price that is not that of the noise."""
    exact = _Noise(mu=1 / scores["noise_multiplier"]).least_epsilon(scores["delta"])
    if not _is_between(scores["epsilon"], exact, exact * 1.001):
        yield f"privacy.json: scores.epsilon is {scores['epsilon']}, and the noise gives {exact:.4f}"
    score_by_name = {
        name: score for name, score in scores.items() if isinstance(score, dict) and "low" in score
    }
    for column, score_by_value in scores["subgroups"].items():
        for value, score in score_by_value.items():
            score_by_name[f"subgroups.{column}.{value}"] = score
    for name, score in score_by_name.items():
        low, value, high = score["low"], score["value"], score["high"]
        if not 0 <= low <= value <= high <= 1:
            yield f"privacy.json: scores.{name} is {value}, outside of its interval"
        ends = f"{math.floor(low * 1000) / 1000:.3f} to {math.ceil(high * 1000) / 1000:.3f}"
        for card in folder.glob("*.md"):
            if f"| {value:.3f} ({ends}) |" not in card.read_text(encoding="utf-8"):
                yield f"{card.name}: does not state scores.{name}, {value:.3f} ({ends})"


def _stated_twice(folder: Path, statement: dict[str, Any]) -> Iterator[tuple[str, object, object]]:
    """Yields the name, the text and the expected value of what the files of a release state together."""
    digests = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    found_digests = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    for name in sorted(digests.keys() | found_digests.keys() - {"manifest.json"}):
        yield f"{name}: SHA-256", found_digests.get(name, "missing"), digests.get(name, "missing")
    text = (folder / "privacy_card.md").read_text(encoding="utf-8")
    card = dict(re.findall(r"^\| (.+?) \| (.*) \|$", text, flags=re.MULTILINE))
    for row, name in _NAMES_BY_ROW.items():
        yield f"privacy_card.md: {name}", card.get(row), statement[name]
    epsilon_of_scores = statement.get("scores", {}).get("epsilon")
    yield "privacy_card.md: scores", card.get("epsilon of the scores"), epsilon_of_scores
    for rate, share in (statement.get("attacks") or {"found": {}})["found"].items():
        row = f"members that attacks find with {100 * float(rate):g}% false alarms, at most"
        if not _is_between(float(card.get(row, "nan").rstrip("%")), 100 * share, 100 * share + 0.1):
            yield f"privacy_card.md: {row}", card.get(row), f"{100 * share:.4g}%"
    text = (folder / "config.yaml").read_text(encoding="utf-8").split("\naccountant:")[0]
    settings = dict(re.findall(r"^(?:  )?(\w+): (.+)$", text, flags=re.MULTILINE))
    for name, value in statement["parameters"].items():
        yield f"privacy_card.md: {name}", card.get(f"mechanism.{name}"), value
    public = {"target_delta": statement["delta"], "num_queries": statement["num_queries"]}
    for name, value in (public | statement["parameters"]).items():
        yield f"config.yaml: {name}", settings.get(name, value), value
    for readme in folder.glob("README.md") if statement["epsilon"] != "inf" else ():
        terms = re.search(r"epsilon <= ([\d.]+) at delta = ([\d.e-]+)", readme.read_text("utf-8"))
        yield "README.md: epsilon", terms and terms[1], statement["epsilon"]
        yield "README.md: delta", terms and terms[2], statement["delta"]
    with np.load(folder / "release.npz", allow_pickle=False) as arrays:
        labels = arrays["labels"]
        yield "release.npz: num_labels", labels.shape[1], statement["num_labels"]
        yield "release.npz: num_answered", arrays["answered"].sum(), statement["num_answered"]
        yield "release.npz: num_queries is enough", len(labels) <= statement["num_queries"], True


def _is_same(text: Any, value: Any) -> bool:
    """Returns True if a text of a card stands for a value of `privacy.json`."""
    text = str(text).replace("\\", "").replace("infinite: no guarantee", "inf")
    try:
        return math.isclose(float(text), float(value), rel_tol=1e-12)
    except (TypeError, ValueError):
        return bool(text.lower() == str(value).lower())


def main(arguments: list[str]) -> int:
    """Prints "holds", "not recomputed" or what differs, and returns the exit code."""
    folder = Path(arguments[0] if arguments else "release")
    try:
        statement = json.loads((folder / "privacy.json").read_text(encoding="utf-8"))
        lines = list(_price(statement))
        for name, text, value in _stated_twice(folder, statement):
            if not _is_same(text, value):
                lines.append(f"{name} is {text}, and not {value}")
        if "scores" in statement:
            lines += _scores(folder, statement["scores"])
    except (OSError, KeyError, ValueError, TypeError, ArithmeticError) as error:
        sys.stderr.write(f"{folder}: cannot be verified: {type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write("\n".join(lines or ["holds"]) + "\n")
    return (3 if lines else 0) if all(line.startswith("not recomputed") for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
