"""The overlay: which chain of converters a transfer should take, by measured delays."""
