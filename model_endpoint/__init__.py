"""The model program ``eval-model``: it finds and loads a policy, then answers what a simulator asks of it.

``loading`` finds a policy's folder and loads its face; ``dispatcher`` is one session with a policy and turns a command
from the wire into a call of it; ``policy`` gives every connection its session and answers requests, several in one
inference where that is wanted; ``policy_thread`` is the one thread on which all this lives. ``sessions`` speaks with
one simulator, ``line`` lets others wait for their turn, ``serving`` opens the socket, by listening or by dialing.
``settings`` and ``cli`` are what a person sees.
Nothing here imports a simulator.
"""
