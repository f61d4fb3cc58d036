"""Builder that makes a folder of pictures and a table of labels from @iconify/json, for `data=image_folder`."""
