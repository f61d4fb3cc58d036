"""The same as the command pate-vote."""

from pate_federated.cli.vote import main

if __name__ == "__main__":
    main()
