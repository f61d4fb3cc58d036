"""What a release can be expected to tell, from public numbers alone."""
