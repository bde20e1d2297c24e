"""The simulator program ``eval-sim``: it owns seeds, episodes, metrics and videos, and asks a model what to do.

It is always the requester; the model may be the one that dials (``SIM_AS_SERVER=1``), listen itself (the default), or
run in this process (``--local``).
"""
