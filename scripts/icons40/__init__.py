"""From the package @iconify/json to a folder of pictures and a table of their labels, for `data=image_folder`."""
