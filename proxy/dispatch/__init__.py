"""Who goes where: the line, the nodes and their pairing. Pure and synchronous: no I/O, no clock."""
