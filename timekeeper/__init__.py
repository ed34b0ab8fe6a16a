"""Virtual time that many unmodified processes share."""
