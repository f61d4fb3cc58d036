"""Top-k mechanisms compared at one sound price: who competes, what a noise costs, and how many items were right."""
