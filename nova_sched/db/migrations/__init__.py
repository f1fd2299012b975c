"""Steps from one schema to the next, run by ``schema.sync``. A step that was released is never edited."""
