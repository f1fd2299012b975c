"""A scheduler service for compute fleets that speaks Nova's scheduler RPC API 3.0."""
