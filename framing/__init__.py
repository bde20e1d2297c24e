"""Bytes <-> messages: everything about the wire that needs no socket, no clock and no thread.

===============  =====================================================================================
`errors`         one exception type per culprit: the peer, us, the line, the clock, the policy
`arrays`         one numpy array <-> its JSON descriptor: dtype allow-list, base64, shape checks
`encoding`       a tree of values -> UTF-8 JSON, image bytes never passing through a JSON library
`decoding`       UTF-8 JSON -> a tree of values, arrays decoded straight from the receive buffer
`codec`          the two functions of both: `numpy_to_json`, `json_to_numpy`
`frames`         4-byte big-endian length + body: one-send encoding, incremental bounded decoding
`states`         the session's states and the table of what may happen in them: data
`messages`       requests, replies, features
`session`        who may say what when: requester and responder over that table
===============  =====================================================================================

It imports numpy and the standard library (and pybase64 where it is installed).
"""
