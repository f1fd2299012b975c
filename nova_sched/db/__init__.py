"""Everything kept in SQL, and the only user of SQLAlchemy. Start with ``claims.py``: the claim state machine."""
