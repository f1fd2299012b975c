"""The column table of hosts, its read-only views and a batch's private consumption."""
