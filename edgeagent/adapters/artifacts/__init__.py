"""Where the files for devices come from: a web server or a folder, through a process of its own."""
