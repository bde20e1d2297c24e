"""dxvla: the shipped policy, a small language-conditioned network with the face of RoboPRO's DXVLA wrapper.

* `deploy_policy`  the face both programs load (`get_model`, `eval`, `reset_model`); imports numpy at most
* `dxvla_model`    the wrapper class with the methods that are called over the wire
* `knobs`          the `DXVLA_*` settings of the model side, read and checked
* `execution`      what happens to a chunk between network and simulator: truncation, smoothing, commanded proprio
* `checkpoints`    where the weights are looked for
* `language`       instruction -> token ids, by hashing words
* `network`        the torch module; imported only inside `get_model`
"""
