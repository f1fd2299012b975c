"""The only loop: take a batch, decide, claim, commit, publish, answer."""
