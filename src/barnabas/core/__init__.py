"""Pure machines: told what happened, they say what follows. No bytes, files, clocks or message versions."""
