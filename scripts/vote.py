"""Command pate-vote, as a file of the repository."""

from pate_federated.cli.vote import main

if __name__ == "__main__":
    main()
