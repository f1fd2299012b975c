"""The weighers, by Nova's class names. The registry finds them by entry points."""
