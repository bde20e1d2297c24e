"""Sockets: listen or dial, retry, deadlines; a blocking channel (simulator) and a trio channel (model).

Thin shells over `framing`. Nothing here knows what a message means, and nothing but `aio` imports trio.

===============  ===========================================================================
`errors`         why a connection could not be opened, one sentence each
`addresses`      checking hosts and ports before anything is tried
`retry`          how often and how long dialing goes on, without a clock or a socket
`occupant`       which process holds a port, from /proc
`sockets`        listen, dial, accept: blocking
`blocking`       `BlockingChannel`
`aio`            the same under trio: `listen`, `dial`, `accept`, `TrioChannel`
===============  ===========================================================================
"""
