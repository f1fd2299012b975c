"""What compute agents report, from validated messages to rows. ``db.reporting`` and ``db.progress`` hold the SQL."""
