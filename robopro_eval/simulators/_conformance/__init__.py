"""The checks behind `robopro_eval.simulators.conformance`, one module per part of the TASK_ENV contract."""
