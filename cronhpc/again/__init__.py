"""Series of pieces: a job that asks for its next piece."""
