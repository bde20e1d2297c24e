"""How the shipped dxvla checkpoint is made: demonstrations, training, and rollouts to choose by.

* `instructions`     what a task is called in training, in several phrasings
* `collect`          demonstrations and corrections ("DAgger") in worker processes, as shard files
* `dataset`          shard files -> tensors
* `learn`            the training loop
* `rollouts`         closed-loop success of a checkpoint in this process, on selection seeds

Used by `scripts/train_tabletop.py`; never installed.
"""
