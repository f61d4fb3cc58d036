"""What a release promises the places that its votes come from."""
