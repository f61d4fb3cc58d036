"""A user's own data set and aggregator, from modules and YAML outside the package, through the command."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.e2e.commands import call

EXAMPLES = Path(__file__).parents[2] / "examples"
CLINIC = """
from dataclasses import dataclass, field
from blobs import Blobs

@dataclass(frozen=True)
class Clinic(Blobs):
    folder: str = ""
    file: str = ""
    ward: int = 0
    num_labels: int = field(default=4, metadata={"public": True})
"""
CONF = {
    "data/clinic.yaml": "_target_: clinic.Clinic\nfolder: private_clinic_files\nfile: patients.csv\nward: 771942\n",
    "aggregator/quorum.yaml": "_target_: custom_aggregator.LaplaceQuorum\nnoise_scale: 20.0\nquorum: 0.6\n",
    "experiment/noisy.yaml": "# @package _global_\ndefaults: [override /aggregator: quorum]\n"
    "aggregator: {noise_scale: 30.0}\n",
}


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    for name, text in CONF.items():
        (folder / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "conf" / name).write_text(text)
    (folder / "clinic.py").write_text(CLINIC)
    return folder


def train(conf: Path, folder: Path, *overrides: str) -> tuple[dict[str, object], str]:
    """Trains, and returns the parameters of the mechanism as it was used, and the published settings."""
    own = [f"output_dir={folder}", "data=clinic", "allowed_targets=[clinic.,custom_aggregator.]", "seed=424242"]
    size = ["num_queries=20", "teacher.num_teachers=10", "engine=sequential", "allow_useless=true"]
    size += ["all_records=false", "accountant=rdp"]
    with pytest.MonkeyPatch.context() as patch:
        for place in (conf, EXAMPLES, EXAMPLES / "own_run"):
            patch.syspath_prepend(str(place))
        done = call("train", "--config-dir", str(conf / "conf"), *own, *size, *overrides)
    assert done.returncode == 0, done.stderr
    parameters = json.loads((folder / "report.json").read_text())["privacy"]["parameters"]
    return parameters, (folder / "release" / "config.yaml").read_text()


@pytest.fixture(scope="module")
def given(conf: Path) -> tuple[dict[str, object], str]:
    return train(conf, conf / "given", "aggregator=quorum", "aggregator.noise_scale=40")


def test_noise_that_is_given_is_taken_whatever_its_field_is_called(given: tuple[dict[str, object], str]) -> None:
    parameters, text = given
    assert parameters["noise_scale"] == 40.0
    published = OmegaConf.create(text)
    assert published.aggregator == {"_target_": "LaplaceQuorum", "noise_scale": 40.0, "quorum": 0.6}
    assert published.target_epsilon is None


def test_nothing_of_the_owner_is_published(given: tuple[dict[str, object], str]) -> None:
    _, text = given
    for secret in ("private_clinic_files", "patients.csv", "771942", "424242", "Clinic", "custom_aggregator"):
        assert secret not in text
    assert OmegaConf.create(text).data == {"num_labels": 4}


def test_noise_of_an_experiment_is_taken_and_a_target_goes_before_it(conf: Path, tmp_path: Path) -> None:
    parameters, _ = train(conf, tmp_path / "a", "experiment=noisy")
    assert parameters["noise_scale"] == 30.0
    parameters, text = train(conf, tmp_path / "b", "experiment=noisy", "target_epsilon=50")
    assert parameters["noise_scale"] != 30.0
    assert OmegaConf.create(text).aggregator.noise_scale == parameters["noise_scale"]
