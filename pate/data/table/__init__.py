"""Tables: files in, features by a public schema."""
