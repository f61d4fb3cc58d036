"""Repositories of the Hugging Face Hub as folders of published models."""

import re
from os import PathLike
from pathlib import Path

from pate.errors import InvalidValue, MissingPackage
from pate.extras import require_extra

# The name of a repository, `user/name`.
_HUB_NAME = re.compile(r"(?P<user>\w[\w.-]*)/\w[\w.-]*")
# The folder of a bundle, as errors describe it.
_FOLDER_RULE = "the folder release/ of a finished run"
# The files of `release/`; nothing else of a repository is downloaded.
_FILES = [
    "manifest.json",
    "schema.json",
    "privacy.json",
    "privacy_card.md",
    "README.md",
    "config.yaml",
    "release.npz",
    "*.safetensors",
    "student/student.json",
    "student/student.safetensors",
]


def is_hub_name(folder_or_repository: str | PathLike[str]) -> bool:
    """Returns True if a text is the name of a repository, `user/name`, and not a path on this machine.

    If `user` is a path on this machine, the text counts as a mistyped path, and no server is asked about it.
    """
    match = (
        _HUB_NAME.fullmatch(folder_or_repository) if isinstance(folder_or_repository, str) else None
    )
    if match is None:
        return False
    hub_user = match["user"]
    is_mistyped_path = Path(hub_user).exists()
    return not Path(folder_or_repository).exists() and not is_mistyped_path


def download_repository(repository_name: str, *, revision: str | None) -> Path:
    """Downloads the files of a bundle in a repository, unless the cache of huggingface_hub has them.

    Returns their folder in the cache.

    Args:
        repository_name: the repository, as `user/name`.
        revision: a commit, branch or tag; None for the latest commit.

    Raises:
        MissingPackage: huggingface_hub is not installed.
        InvalidValue: there is no such repository, or the hub cannot be reached and the cache lacks the repository.
    """
    try:
        require_extra("release", extra="hub", value=repository_name)
    except MissingPackage as error:
        rule = f"{_FOLDER_RULE}; a model on the Hugging Face Hub needs {error.rule}"
        raise MissingPackage("release", repository_name, rule=rule) from None
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository_name, revision=revision, allow_patterns=_FILES))
    # Errors of the hub and of the connection are of classes that differ between versions of the package.
    except (OSError, ValueError, RuntimeError) as error:
        reason = f"{type(error).__name__}, as the hub answers"
        rule = f"{_FOLDER_RULE}, or a model on the Hugging Face Hub ({reason})"
        raise InvalidValue("release", repository_name, rule=rule) from error
