"""The filters, by Nova's class names; each module is one family. The registry finds them by entry points."""
