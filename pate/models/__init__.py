"""Models, a family a file: what teachers learn, what students learn, and how an ensemble is trained."""
