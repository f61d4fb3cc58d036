"""Command `python -m reproductions.stable_top_k.exp1`, as a file of the repository."""

import sys
from pathlib import Path

# reproductions/ is no part of the package
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reproductions.stable_top_k.exp1 import main

if __name__ == "__main__":
    main()
