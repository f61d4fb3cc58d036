"""Command pate-dossier, as a file of the repository."""

from pate.cli.dossier import main

if __name__ == "__main__":
    main()
