"""Cases of StableTopK."""

from typing import Any

from pate.aggregators import StableTopK
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_set

CONTRACT = (
    Case("gumbel", StableTopK(selection_scale=2.0, test_std=1.0)),
    Case("gaussian", StableTopK(selection_noise="gaussian", selection_scale=2.0, test_std=1.0)),
    Case("laplace", StableTopK(selection_noise="laplace", selection_scale=2.0, test="laplace", test_std=0.4)),
    Case("exponential", StableTopK(selection_noise="exponential", selection_scale=2.0, test_std=1.0)),
    Case("table", StableTopK(selection_scale=2.0, test="table", table_order=3.0, table_budget=4.0)),
    Case("padded", StableTopK(selection_scale=2.0, test_std=1.0, padded=True)),
    Case("regularized", StableTopK(selection_scale=2.0, test_std=1.0, regularizer=lambda k: -0.5 * k)),
    Case("numbers", StableTopK(selection_scale=2.0, test_std=1.0, regularizer=[0.0, -1.0, 0.5])),
    Case("restricted", StableTopK(selection_scale=2.0, test_std=1.0, max_k=2)),
)


def _distribution(noise: str, *, tightness: float = 0.9, **options: Any) -> LawCase:
    settings = {"test_std": 1.0, "failure_prob": 0.05, "selection_scale": 1.0} | options
    return LawCase(
        "-".join(["StableTopK", noise, *map(str, options.values())]),
        lambda shape: StableTopK(selection_noise=noise, adjacency=shape.adjacency, **settings),
        tightness=tightness,
        min_labels=1 if settings.get("padded") else 2,
        rename=rename_set,
    )


DISTRIBUTIONS = (
    _distribution("gumbel"),
    _distribution("gaussian"),
    _distribution("exponential", test="laplace"),
    _distribution("gumbel", test="table", table_order=4.0, table_budget=0.2),
    _distribution("gumbel", tightness=0.7, padded=True),
)
