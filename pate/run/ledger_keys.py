"""The keys under which a ledger stores the draws of a run."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Self

from pate.files.atomic import write_text
from pate.files.reading import FROM_BACKUP, damaged, read_text
from pate.run.folder import RunFolder

# The content of the file: the name of the run, then a name for each later draw.
_KEY_LINES = re.compile(r"(?:[0-9a-f]{32}\n)+")
_KEYS_RULE = "the names of the run and of its draws, 32 hexadecimal digits a line"


@dataclass(frozen=True)
class LedgerKeys:
    """The keys of a run's draws in a ledger: one key for each time that the run's release was drawn with fresh noise.

    The keys are random and stored in the run's folder. A copy of the folder has the same keys, and so the same release.

    Attributes:
        run_key_prefix: the name of the run, 32 hexadecimal digits: the key of its first draw, which begins all keys.
        later_draw_names: a name for each later draw: 32 hexadecimal digits.
    """

    run_key_prefix: str
    later_draw_names: tuple[str, ...] = ()

    @classmethod
    def new(cls) -> Self:
        """Returns the keys of a run that has not drawn yet: one random key."""
        return cls(run_key_prefix=secrets.token_hex(nbytes=16))

    @classmethod
    def read(cls, run_folder: RunFolder) -> Self:
        """Reads the keys from a run's folder; raises `DamagedFile` if the file is missing or holds no keys."""
        keys_file = run_folder.run_id
        keys_text = read_text(keys_file, rule=_KEYS_RULE, remedy=FROM_BACKUP)
        if _KEY_LINES.fullmatch(keys_text) is None:
            raise damaged(keys_file, rule=_KEYS_RULE, finding="others", remedy=FROM_BACKUP)
        run_key_prefix, *later_draw_names = keys_text.split()
        return cls(run_key_prefix=run_key_prefix, later_draw_names=tuple(later_draw_names))

    def write(self, run_folder: RunFolder) -> None:
        """Writes the keys into a run's folder."""
        key_lines = [f"{name}\n" for name in (self.run_key_prefix, *self.later_draw_names)]
        write_text(run_folder.run_id, text="".join(key_lines))

    @property
    def all(self) -> tuple[str, ...]:
        """The keys of all draws, the first draw first."""
        return (
            self.run_key_prefix,
            *(f"{self.run_key_prefix}-{name}" for name in self.later_draw_names),
        )

    @property
    def last_draw(self) -> str:
        """The key of the last draw, which is the run's present release."""
        return self.all[-1]

    def with_redraw(self) -> LedgerKeys:
        """Returns these keys and a new random key for one more draw."""
        return LedgerKeys(
            run_key_prefix=self.run_key_prefix,
            later_draw_names=(*self.later_draw_names, secrets.token_hex(nbytes=16)),
        )

    def of_copy(self, release_content: bytes) -> LedgerKeys:
        """Returns new keys for a copy of the run that drew another release under the same keys.

        Args:
            release_content: the bytes that the copy drew; equal bytes give equal keys.
        """
        copy_digest = hashlib.sha256(self.run_key_prefix.encode() + release_content).hexdigest()
        return LedgerKeys(
            run_key_prefix=copy_digest[: len(self.run_key_prefix)],
            later_draw_names=self.later_draw_names,
        )
