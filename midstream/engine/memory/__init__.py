"""The memory limit: what counts towards it, and what is given up so that it holds.

manager    what the pipeline talks to
limit      "2GB" -> bytes
counting   windows, states, output, late rows -> bytes by kind
keeper     after every chunk: evict entries, or switch states off, until all fits
accounts   what each join state is worth: how often it is probed, what refilling it would cost, what it takes
forecast   before a push: whether its rows fit into the base windows at all, and in how large chunks
shedding   which rows are dropped if they do not, where that is allowed
"""
