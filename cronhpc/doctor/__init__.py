"""`cronhpc doctor`: what this site allows, and what stands in the way here."""
