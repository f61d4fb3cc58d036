"""Files that are whole or not there, strict JSON, and text that names a value."""
