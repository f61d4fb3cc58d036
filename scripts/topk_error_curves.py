"""Command `python -m reproductions.top_k.error_curves`, as a file of the repository."""

import sys
from pathlib import Path

# reproductions/ is no part of the package
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reproductions.top_k.error_curves import main

if __name__ == "__main__":
    main()
