"""Bytes <-> messages: everything about the wire that needs no socket, no clock and no thread.

===============  =====================================================================================
`errors`         one exception type per culprit: the peer, us, the line, the clock, the policy
`frames`         4-byte big-endian length + body: one-send encoding, incremental bounded decoding
`arrays`         what an array may be: dtype allow-list, shapes, base64
`encoding`       a tree of values -> UTF-8 JSON, image bytes never passing through a JSON library
`decoding`       UTF-8 JSON -> a tree of values, arrays decoded straight from the receive buffer
`codec`          the stock body in two functions: `numpy_to_json`, `json_to_numpy`
`binary`         a tree of values <-> the binary body: a JSON head, then the arrays as they are
`states`         the session's states and the table of what may happen in them: data
`messages`       requests, replies, wait notices, features
`turns`          what the two roles of a session share: a state that moves by the table
`requester`      the simulator's side: who may ask what when
`responder`      the model's side
`session`        all of these names in one place, for the programs
===============  =====================================================================================

It imports numpy and the standard library (and pybase64 where it is installed).
"""
