"""The commands of this package; its entry points list them, so that `pate` finds them."""

from pathlib import Path

from pate.package_commands import PackageCommand
from pate.setting_names import RELEASE as RELEASE_SPELLING
from pate.setting_names import TRAIN as TRAIN_SPELLING
from pate_federated.settings import HoldersReleaseSettings, StudentSettings, VoteSettings

# The folder of the configuration files of the package.
_FOLDER = Path(__file__).parent / "conf"

RELEASE = PackageCommand(
    settings_class=HoldersReleaseSettings,
    folder=_FOLDER,
    task="pate_federated.cli.release:release",
    spelling=RELEASE_SPELLING,
)
"""`pate-release`, which reads vote files of holders as well, adds them up, and asks holders round after round."""

STUDENT = PackageCommand(
    settings_class=StudentSettings, folder=_FOLDER, task="pate_federated.cli.student:train_student"
)
"""`pate-student`, which trains a student on a release."""

VOTE = PackageCommand(
    settings_class=VoteSettings,
    folder=_FOLDER,
    task="pate_federated.cli.vote:vote",
    spelling=TRAIN_SPELLING,
)
"""`pate-vote`, which casts the votes of a holder's teachers."""
