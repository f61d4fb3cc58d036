"""From the package @iconify/json to the file that `pate.data.Icons` reads."""
