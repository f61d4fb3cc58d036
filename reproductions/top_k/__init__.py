"""Top-k mechanisms compared at one sound price: the contenders, the price of a noise, and the recall."""
