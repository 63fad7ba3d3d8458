"""`cronhpc check`: what a script, an entry or a settings file has wrong."""
