"""Command pate-student, as a file of the repository."""

from pate_federated.cli.student import main

if __name__ == "__main__":
    main()
