"""The models that all runs in one folder of outputs are compared with, each of which is trained once.

A *reference model* is a baseline: the model of all private records, or the student of the true labels. It is not one of
the reference models of the membership inference attack (`pate.run.membership`). It depends on records, a recipe and a
seed, and not on votes, noise or epsilon. So runs in one folder, such as those of a sweep, share it. The first run
trains it and keeps it in `pate_cache/reference_models` beside the folders of the runs; other runs read it.

No epsilon covers these models. Their files have mode 0600, lie outside of every `release/`, and are never published.

The name of a model's folder is a digest of everything that the model depends on. A model is written before its card,
and the card has the digests of the model's files. So a model that is half-written or damaged is trained again. Each
model has a lock: a second run that needs it waits until the first run has trained it, or was killed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from shutil import rmtree

from pate.extras import VERSION
from pate.files.digests import file_digest, unabridged_repr
from pate.files.lock import file_lock
from pate.files.paths import make_folder
from pate.files.posix import OWNER_FOLDER_MODE
from pate.models import Student
from pate.progress import Monitor
from pate.run.students import KeptModels, TrainedStudent

# The name of this package, whose version stands for the code of its recipes.
_PACKAGE = __name__.partition(".")[0]
# The number of hexadecimal digits of a digest in the name of a model's folder.
_NAME_DIGITS = 32
# The errors of a folder that cannot be written. A model is then trained and not kept.
_READ_ONLY_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS)


class ReferenceModels:
    """The models for comparison, trained without privacy, that all runs in one folder of outputs share.

    Such a model is kept in a folder `pate_cache` and read by later runs. No epsilon covers it.

    Args:
        outputs_folder: the folder in which the folders of the runs lie.
        monitor: receives a line if a model is read, and the progress if another run trains the model at this moment.
    """

    def __init__(self, outputs_folder: Path, monitor: Monitor) -> None:
        self.reference_models_folder = outputs_folder / "pate_cache" / "reference_models"
        self.monitor = monitor

    def model(
        self,
        model_name: str,
        *,
        model_words: str,
        dependencies_digest: str | None,
        train_model: Callable[[], TrainedStudent],
    ) -> TrainedStudent:
        """Returns a baseline that runs share: reads it if a run has trained it, and otherwise trains and keeps it.

        The model is trained and not kept if `dependencies_digest` is None, if the folder cannot be written, or if other
        users may list it.

        Args:
            model_name: the name of the model in report.json.
            model_words: the name of the model in the lines for the monitor.
            dependencies_digest: the digest of everything that the model depends on, as `reference_key` returns it.
            train_model: trains the model.
        """
        if dependencies_digest is None or not self._is_closed_to_others():
            return train_model()
        model_folder_name = f"{model_name}-{dependencies_digest[:_NAME_DIGITS]}"
        kept_models = KeptModels(self.reference_models_folder)
        trained_reference = kept_models.read(
            model_folder_name, dependencies_digest=dependencies_digest
        )
        if trained_reference is None:
            with ExitStack() as stack:
                if not self._lock(model_folder_name, model_words=model_words, exit_stack=stack):
                    return train_model()
                # Another run may have trained the model while this run waited for the lock.
                trained_reference = kept_models.read(
                    model_folder_name, dependencies_digest=dependencies_digest
                )
                if trained_reference is None:
                    _remove(self.reference_models_folder / model_folder_name)
                    trained_reference = train_model()
                    kept_models.write(
                        model_folder_name,
                        trained_reference,
                        dependencies_digest=dependencies_digest,
                    )
                    return trained_reference
        # The line does not show `model_folder_name`, which would confirm a guess of the records.
        self.monitor.say(
            f"the {model_words} was trained before, on the same records: {self.reference_models_folder} (private)"
        )
        return trained_reference

    def _is_closed_to_others(self) -> bool:
        """Returns True if no other user can list the folder of models, or if it is not there yet.

        The folder must belong to this user and have mode 0700. Otherwise a line for the monitor says what helps. On a
        system without such modes the result is True.

        The names of the models in the folder are digests of private records. Somebody who knows all records but one
        could confirm a guess of that record by such a name.
        """
        if not hasattr(os, "geteuid"):
            return True  # a system without the modes of POSIX files
        try:
            folder_status = os.stat(self.reference_models_folder)
        except FileNotFoundError:
            return True
        if (
            folder_status.st_uid == os.geteuid()
            and stat.S_IMODE(folder_status.st_mode) == OWNER_FOLDER_MODE
        ):
            return True
        remedy = (
            f"chmod 700 {self.reference_models_folder}, if it is yours and holds nothing of others"
        )
        self.monitor.say(
            f"no model is shared with other runs, as other users may list them: {remedy}"
        )
        return False

    def _lock(self, model_folder_name: str, *, model_words: str, exit_stack: ExitStack) -> bool:
        """Takes the lock of a model until `exit_stack` is closed; returns False if the folder cannot be written.

        If another run holds the lock, the method waits, and the monitor shows that it does.

        Args:
            model_folder_name: the name of the model's folder.
            model_words: the name of the model in words, for the monitor.
            exit_stack: releases the lock when it is closed.
        """
        lock_file = self.reference_models_folder / f"{model_folder_name}.lock"
        try:
            make_folder(self.reference_models_folder)
            try:
                exit_stack.enter_context(file_lock(lock_file, wait=False))
            except BlockingIOError:
                with self.monitor.stage(f"waiting for the {model_words} of another run"):
                    exit_stack.enter_context(file_lock(lock_file))
        except OSError as error:
            if error.errno in _READ_ONLY_ERRORS:
                return False
            raise
        return True


def reference_key(
    model_name: str, *, student_recipes: Iterable[Student], seed: int, record_digests: Iterable[str]
) -> str | None:
    """Returns the digest of everything that a shared baseline depends on; None if the model must not be shared.

    A recipe of a class that is not of this package is not shared, as its code may change between two runs.

    Args:
        model_name: the name of the model in report.json.
        student_recipes: the recipe of the model, or the recipes that compete for it.
        seed: the seed of its training.
        record_digests: digests of the records that the model learns from.
    """
    dependency_texts = [VERSION, model_name, str(seed), *record_digests]
    for student_recipe in student_recipes:
        if type(student_recipe).__module__.partition(".")[0] != _PACKAGE:
            return None
        dependency_texts.append(unabridged_repr(student_recipe))
        dependency_texts += _digests_of_files(student_recipe)
    return hashlib.sha256(repr(dependency_texts).encode()).hexdigest()


def _digests_of_files(student_recipe: Student) -> list[str]:
    """Returns the digests of the files that fields of a student's recipe name, such as pretrained weights."""
    recipe_fields = fields(student_recipe)  # type: ignore[arg-type]
    field_values = [getattr(student_recipe, recipe_field.name) for recipe_field in recipe_fields]
    files_named_in_recipe = [
        field_value
        for field_value in field_values
        if isinstance(field_value, str) and os.path.isfile(field_value)
    ]
    return [
        file_digest(named_file, remedy="name another file") for named_file in files_named_in_recipe
    ]


def _remove(model_path: Path) -> None:
    """Removes the folder at `model_path`, or the file or link if there is one in its place; there may be nothing.

    A model lies there that could not be read, and is about to be written again.
    """
    if model_path.is_dir() and not model_path.is_symlink():
        rmtree(model_path)
    else:
        model_path.unlink(missing_ok=True)
