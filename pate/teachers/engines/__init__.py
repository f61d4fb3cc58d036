"""How an ensemble is trained: in this process, in several, on a cluster; the same bytes from each."""
