"""Batch systems behind one narrow port."""
