"""The price of a noisy maximum that releases the winner alone, where one or two counts move (docs/proofs/winner.md)."""
