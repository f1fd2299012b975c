"""The real engine without bus and database: cases, replay and comparison."""
