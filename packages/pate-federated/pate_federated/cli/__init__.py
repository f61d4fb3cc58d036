"""The commands `pate-vote` and `pate-student`, and `pate-release` for votes of holders."""
