"""The model program ``eval-model``: it finds and loads a policy, then answers what a simulator asks of it.

``loading`` finds a policy's folder and loads its face; ``dispatcher`` turns a command from the wire into a call of the
policy; ``policy_thread`` is the one thread on which the policy lives; ``sessions`` speaks with one simulator;
``serving`` opens the socket, by listening or by dialing; ``settings`` and ``cli`` are what a person sees.
Nothing here imports a simulator.
"""
