"""From WordNet's dictionary to the arrays of WordNet-40, the embedded data set."""
