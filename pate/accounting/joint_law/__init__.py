"""The price of a gap selection and the test of what it chose, as one release (docs/proofs/joint_law.md)."""
