"""What a service says about itself: metrics, probes and a read-only page."""
