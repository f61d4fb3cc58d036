"""Top-k mechanisms, with their base classes (`mechanism`) and the sort of counts that most of them use."""
