"""The parts of `scripts/bench_wire.py`: what a step of an evaluation costs, beside the other ways of doing it.

======================  ================================================================================
`observations`          what travels: the payloads, their checksum, the reply
`arms`                  the table of arms: which two programs, in which environment
`drive`, `clients`      the simulator's program of an arm, and how it talks
`serve`, `servers`      the model's program of an arm, where it is not `eval-model` itself
`policy/`               the policy that `eval-model` serves: it does nothing but answer
`foreign`               both halves of the arms that need packages of their own (`requirements.txt`)
`processes`             starting programs, talking to them, never leaving one behind
`linux`                 what the kernel says of a process: CPU time, peak memory, bytes on its sockets
`measure`               rounds of short blocks, arms interleaved; medians, quartiles, ratios
`stages`                where the time of one step goes
`report`                the table for people, the targets, the page, the README's part
======================  ================================================================================

`observations`, `drive`, `serve`, `foreign` and `linux` also run in the foreign arms' environment: they need numpy 1.24
and, until an arm of ours is asked for, nothing else of this repository.
"""
