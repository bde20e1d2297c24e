"""A bimanual tabletop benchmark on SAPIEN 3 that runs on a CPU.

Four tasks in RoboPRO's style, behind the same TASK_ENV contract as the real benchmark (`simulators.task_env`), so that
policies, transports and pipelines can be tried end to end on any machine. Its numbers are *not* RoboPRO numbers.

Importing this package does not import SAPIEN; making an environment does.
"""
