"""Private top-k: one histogram of votes to the k labels with the most votes."""
