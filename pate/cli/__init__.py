"""The commands, each a Hydra app: they need POSIX and the extra `cli`, most of them `train`."""

from pate.cli.process import report_shortages
from pate.extras import require_extra
from pate.files.posix import require_posix

report_shortages()
require_posix("pate.cli")
require_extra("pate.cli", "cli")
