"""What happens without a message: claims expire, events are sent again, history is purged."""
