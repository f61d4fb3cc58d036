"""A model is uploaded to the Hugging Face Hub and loaded by name; a server on this machine stands in for it."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pate
from pate import PATEClassifier
from pate.bundle.hub import is_hub_name
from pate.errors import MissingPackage
from tests.refusals import refused_parameter
from tests.unit.bundle.hub_server import Repositories, hub_server

pytest.importorskip("huggingface_hub")
# A program that loads the model of the test by its name on the hub, and another that is not there.
LOADING_PROGRAM = """
import numpy as np
import pate

bundle = pate.load("me/signs")
np.save("probabilities.npy", bundle.predict_proba(np.load("inputs.npy")))
print(bundle.form.name, bundle.privacy.epsilon)
try:
    pate.load("me/nothing")
except pate.validation.InvalidValue as error:
    print(error.name, error.value)
"""
# A program that uploads the pickled model of the test, and prints the address of the commit.
PUSHING_PROGRAM = """
import pickle
from pathlib import Path

model = pickle.loads(Path("model.pickle").read_bytes())
print(model.push_to_hub("me/signs", name="signs"))
"""


def output_of_program(source_code: str, *, working_folder: Path, hub_address: str) -> str:
    """Runs a program in a process of its own, and returns what it prints.

    Args:
        source_code: the source code of the program.
        working_folder: the working folder of the process, which gets the cache of the hub.
        hub_address: the address of the hub, which huggingface_hub reads at import.
    """
    environment = {
        "HF_ENDPOINT": hub_address,
        "HF_HOME": str(working_folder / "cache"),
        "HF_TOKEN": "hf_nobody",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "*",
    }
    process = subprocess.run(
        [sys.executable, "-c", source_code],
        cwd=working_folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.process
def test_a_fit_goes_to_the_hub_and_is_loaded_by_name(tmp_path: Path) -> None:
    """A fitted classifier is uploaded as the files of `publish`, and `pate.load` by name predicts as the classifier.

    A file outside of the manifest is not downloaded, and a missing name is refused.
    """
    inputs = np.random.default_rng(0).standard_normal((2500, 4)).astype(np.float32)
    model = PATEClassifier(epsilon=2.0).fit(
        inputs[:2000], inputs[:2000] > 0, X_public=inputs[2000:2200]
    )
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "inputs.npy", inputs[2200:])
    repositories: Repositories = {}
    with hub_server(repositories) as hub_address:
        commit_address = output_of_program(
            PUSHING_PROGRAM, working_folder=tmp_path, hub_address=hub_address
        )
        assert commit_address.startswith(f"{hub_address}/me/signs/commit/")
        model.publish(tmp_path / "release", name="signs")
        published = {
            path.relative_to(tmp_path / "release").as_posix(): path.read_bytes()
            for path in (tmp_path / "release").rglob("*")
            if path.is_file()
        }
        assert repositories == {"me/signs": published}
        repositories["me/signs"]["run_me.py"] = b"raise SystemExit"
        lines = output_of_program(
            LOADING_PROGRAM, working_folder=tmp_path, hub_address=hub_address
        ).splitlines()
    assert lines == ["signs 2.0", "release me/nothing"]
    np.testing.assert_array_equal(
        np.load(tmp_path / "probabilities.npy"), model.predict_proba(inputs[2200:])
    )
    assert not list((tmp_path / "cache").rglob("run_me.py")), (
        "only files of a release are downloaded"
    )


@pytest.mark.parametrize("name", ["me/signs", "some-lab/model.v2"])
def test_a_user_and_a_name_are_a_repository(name: str) -> None:
    """A text `user/name` is taken as the name of a model on the hub."""
    assert is_hub_name(name)


@pytest.mark.parametrize("name", ["signs", "./me/signs", "/me/signs", "a/b/c", "me/", "../signs"])
def test_other_texts_are_paths(name: str) -> None:
    """A text with no slash, with several, with an empty part, or like a path, and a `Path`, are no names on the hub."""
    assert not is_hub_name(name)
    assert not is_hub_name(Path("me/signs"))


def test_a_mistyped_path_is_not_sent_to_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path within an existing folder is refused as missing, and is not looked up as a name on the hub."""
    (tmp_path / "outputs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert not is_hub_name(folder_or_repository="outputs/relase")
    with refused_parameter("release", value=Path("outputs/relase")):
        pate.load("outputs/relase")


def test_without_the_package_of_the_hub_the_error_also_names_the_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loading by name without the package `huggingface_hub` is refused; the error also mentions a folder."""

    def refuse(name: str, extra: str, value: object) -> None:
        raise MissingPackage(name, value, rule=f"the package of {extra}")

    monkeypatch.setattr("pate.bundle.hub.require_extra", refuse)
    with refused_parameter(
        "release", value="me/signs", rule_words="the folder release/", kind=MissingPackage
    ):
        pate.load("me/signs")
