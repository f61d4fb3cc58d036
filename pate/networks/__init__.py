"""Networks for images and how they are trained: beneath teachers and students, who both use them."""
