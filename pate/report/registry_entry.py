"""The entry of a release in a public registry of deployments of differential privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pate.accounting.rounding import format_delta, format_epsilon

if TYPE_CHECKING:
    from pate.report.dossier import Dossier

TO_FILL = "to be filled in by the publisher"
"""The text of a fact that only the publisher knows."""

LIMIT_IF_SEEDED = "only against readers who do not know the seed"
"""The limit of the guarantee of a release with seeded noise."""


def registry_entry(dossier: Dossier) -> dict[str, dict[str, Any]]:
    """Returns the entry of a release, by the fields that the registry of OpenDP publishes.

    Facts that only the publisher knows are `TO_FILL`, unless the dossier has them.
    """
    statement = dossier.statement
    parameters = ", ".join(
        f"{parameter_name}={parameter}"
        for parameter_name, parameter in statement.parameters.items()
    )
    stated_public = "".join(
        f", the names of the {fact_name}" for fact_name in statement.stated_public
    )
    noise = "noise from the operating system's entropy"
    if dossier.is_seeded:
        noise = f"noise from a seed, so that the guarantee holds {LIMIT_IF_SEEDED}"
    scores = ""
    if dossier.scores is not None:
        scores = (
            f"; scores on test records, at epsilon {format_epsilon(dossier.scores.epsilon)} and delta "
            f"{format_delta(dossier.scores.delta)} of their own, for the people in these records"
        )
    start = "" if statement.start is None else f". {statement.start.text}"
    description = f"labels that private teachers voted on for public records of {statement.data}"
    if dossier.model:
        description += f", and a {dossier.model_name} model that learned from them"
    return {
        "product": {
            "name": TO_FILL,
            "data_curators": dossier.publisher or TO_FILL,
            "intended_use": TO_FILL,
            "data_product_type": "Machine learning model" if dossier.model else "Labels",
            "data_product_region": TO_FILL,
            "description": description,
            "publication_date": dossier.date or TO_FILL,
            "data_product_sector": TO_FILL,
        },
        "dp_flavor": {
            "name": "Approximate DP" if statement.delta > 0 else "Pure DP",
            "input_metric": statement.adjacency,
            "bound_on_input_distance": f"1: {dossier.adjacency}",
            "output_measure": "(epsilon, delta), and the trade-off curve",
            "data_domain": TO_FILL,
            "unprotected_quantities": f"the number of units, and all settings in config.yaml{stated_public}",
        },
        "privacy_loss": {
            "privacy_unit": statement.unit,
            "privacy_unit_description": dossier.adjacency,
            "privacy_parameters.epsilon": statement.epsilon,
            "privacy_parameters.delta": statement.delta,
        },
        "model": {
            "model_name": "Central",
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "the model learned from the released labels and public records alone",
            "composition": f"the accountant {statement.accountant}, for all {statement.num_queries} queries "
            f"together{scores}{start}",
        },
        "implementation": {
            "pre_processing_eda_hyperparameter_tuning": "no epsilon covers choices after a look at "
            f"private data; {TO_FILL}",
            "mechanisms": f"{statement.mechanism} ({parameters}) by {statement.package}; {noise}",
            "justification": TO_FILL,
        },
    }
