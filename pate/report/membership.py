"""Attacks that tell whether a record was among the private ones, by the student's losses."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.report.metrics import Bits, Floats

_RATES = (0.001, 0.01)  # of false positives, for which the text states what an attack finds
_FALSE_COUNTS = 24  # of the curve


@dataclass(frozen=True)
class Membership:
    """The success of two attacks that guess which records were private. No epsilon covers these figures.

    The first attack takes the records with the smallest loss for private. The second takes the records whose loss is
    smallest compared with models that never saw a private record: the offline LiRA of Carlini et al. (2022),
    "Membership inference attacks from first principles". Chance is the success on records that differ in nothing.
    """

    # `[P]`, false positive rates in (0, 1), rising, 0.1% and 1% among them, in whole records
    fpr: tuple[float, ...]
    # `[P]`, the share of private records found at each rate; equal losses count in proportion
    tpr: tuple[float, ...]
    low: tuple[float, ...]  # `[P]`, the lower end of the 95% interval of `tpr` by chance
    high: tuple[float, ...]  # `[P]`, the upper end of that interval
    num_private: int  # private records that were tried, n
    num_test: int  # test records that were tried, m
    # `[P]`, the share that LiRA finds; empty if no reference models were trained
    tpr_by_reference: tuple[float, ...] = ()

    @classmethod
    def from_losses(
        cls,
        private: Floats,
        test: Floats,
        *,
        private_unusual: Floats | None = None,
        test_unusual: Floats | None = None,
    ) -> Self | None:
        """Returns the success of both attacks; None without a private record, or with fewer than two test records.

        Args:
            private: the student's losses on private records, `[n]`.
            test: its losses on independent test records, `[m]`.
            private_unusual: how unusual private records are (`unusual`), `[n]`, or None without reference models.
            test_unusual: how unusual test records are, `[m]`, or None.
        """
        n = len(private)
        m = len(test)
        if not n or m < 2:
            return None
        wanted_counts = np.append(np.geomspace(1, m - 1, _FALSE_COUNTS), np.multiply(_RATES, m))
        counts = np.unique(np.clip(wanted_counts + 1e-9, 1, m - 1).astype(np.int64))
        low, high = _chance_interval(counts, n, m)
        tpr_by_reference: tuple[float, ...] = ()
        if private_unusual is not None and test_unusual is not None:
            tpr_by_reference = _true_positive_rates(private_unusual, test_unusual, counts)
        return cls(
            fpr=tuple((counts / m).tolist()),
            tpr=_true_positive_rates(private, test, counts),
            low=tuple(low.tolist()),
            high=tuple(high.tolist()),
            num_private=n,
            num_test=m,
            tpr_by_reference=tpr_by_reference,
        )

    @property
    def text(self) -> str:
        """A sentence on what an attacker sees of a training record."""
        places = {int(np.abs(np.array(self.fpr) - rate).argmin()) for rate in _RATES}
        lines = [self._line_at(place) for place in sorted(places)]
        return f"What an attacker sees of a training record: {'; '.join(lines)}."

    def _line_at(self, place: int) -> str:
        """Returns in words what is found at one of the false positive rates."""
        shares = [f"{_percent(self.tpr[place])} of them"]
        most = self.tpr[place]
        if self.tpr_by_reference:
            shares.append(f"{_percent(self.tpr_by_reference[place])} by reference models")
            most = max(most, self.tpr_by_reference[place])
        high = self.high[place]
        chance = "beyond" if most > high else "nothing beyond"
        fpr = _percent(self.fpr[place])
        return (
            f"at a false positive rate of {fpr} it finds {' or '.join(shares)}, "
            f"{chance} chance (up to {_percent(high)})"
        )


def _percent(rate: float) -> str:
    """Returns a rate as a percentage of two digits."""
    return f"{float(f'{100 * rate:.2g}'):g}%"


def _true_positive_rates(
    private: Floats, test: Floats, counts: NDArray[np.int64]
) -> tuple[float, ...]:
    """Returns the share of private records below so many test records, by ascending losses, `[len(counts)]`.

    Records of equal losses count in proportion.
    """
    levels = np.unique(np.append(private, test))
    num_private = np.append(0, np.searchsorted(np.sort(private), levels, side="right"))
    num_test = np.append(0, np.searchsorted(np.sort(test), levels, side="right"))
    # the last level with no more than so many false positives, and the share of the next level
    last = np.searchsorted(num_test, counts, side="right") - 1
    share = (counts - num_test[last]) / (num_test[last + 1] - num_test[last])
    hits = num_private[last] + share * (num_private[last + 1] - num_private[last])
    return tuple((hits / len(private)).tolist())


def label_losses(probabilities: NDArray[np.floating], true: Bits) -> Floats:
    """Returns the binary cross-entropy of each sample, summed over its labels, `[n]`, from arrays `[n, L]`."""
    confidence = np.where(true, probabilities, 1 - probabilities.astype(np.float64))
    losses: Floats = -np.log(np.maximum(confidence, 1e-12)).sum(axis=1)
    return losses


def log_odds(probabilities: NDArray[np.floating], true: Bits) -> Floats:
    """Returns the log-odds of the true labels of each sample, summed over labels, `[n]`, from arrays `[n, L]`."""
    return label_losses(probabilities, ~true) - label_losses(probabilities, true)


def unusual(odds: Floats, usual: Floats) -> Floats:
    """Returns how far log-odds lie below those of reference models, in standard deviations of a Gaussian, `[n]`.

    The Gaussian of a record has the mean of its reference log-odds. Half of its variance is the mean over all records,
    as K models tell little of the variance of one.

    Args:
        odds: log-odds of the student, `[n]`.
        usual: log-odds of K models that never saw a private record, `[K, n]`.
    """
    variance = usual.var(axis=0)
    spread = np.sqrt((variance + variance.mean()) / 2)
    return np.asarray((usual.mean(axis=0) - odds) / np.where(spread > 0, spread, 1))


def _chance_interval(counts: NDArray[np.int64], n: int, m: int) -> tuple[Floats, Floats]:
    """Returns the 95% interval of the rate that chance finds at each count of false positives.

    The number of n private records before the (k + 1)-th of m test records is binomial with a rate that is
    Beta(k + 1, m - k). The weights of this beta-binomial law follow from the ratios of neighboring ones.
    """
    places = np.arange(n)
    k = counts[:, None]
    steps = np.log((n - places) * (places + k + 1.0) / ((places + 1.0) * (m - k + n - 1 - places)))
    weights = np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1)  # [P, n + 1], logarithms
    cumulative = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
    cumulative /= cumulative[:, -1:]
    return (cumulative < 0.025).sum(axis=1) / n, (cumulative < 0.975).sum(axis=1) / n
