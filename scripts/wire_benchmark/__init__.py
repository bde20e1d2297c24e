"""The parts of `scripts/bench_wire.py`: what a step of an evaluation costs, beside the other ways of doing it.

=================  =====================================================================================
`observations`     what travels: the payloads, their digest, the reply
`arms`             the table of arms: which two programs, in which environment
`serve`, `drive`   the two programs of one arm: the model's side and the simulator's
`foreign`          both halves of the arms that need packages of their own
`policy/`          the policy that the real `eval-model` serves: it does nothing but answer
`processes`        starting programs, talking to them, never leaving one behind
`linux`            what the kernel says about a process: CPU time, peak memory, bytes on its sockets
`measure`          rounds of short blocks, arms interleaved; medians, quartiles, ratios
`report`           the table for people, the page, the README's part
`stages`           where the time of one step goes
=================  =====================================================================================

The modules that the programs of foreign arms import (`observations`, `serve`, `drive`, `foreign`) need numpy 1.24 and
nothing else of ours.
"""
