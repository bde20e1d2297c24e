"""Sockets: listen or dial, who may connect, deadlines; a blocking channel (simulator) and a trio channel (model).

Thin shells over `framing`. Nothing here knows what a message means, and nothing but `aio` and `trio_channel` imports
trio.

===============  ===========================================================================
`errors`         why a connection could not be opened, one sentence each
`addresses`      checking hosts and ports before anything is tried
`retry`          how often and how long dialing goes on, without a clock or a socket
`occupant`       which process holds a port, from /proc
`auth`           the exchange of tokens, without a clock or a socket
`tls`            contexts of TLS, and what its errors mean
`sockets`        listen, dial, accept: blocking
`blocking`       `BlockingChannel`
`security`       `LinkSecurity`, `secure`, `authenticate`: blocking
`recording`      a channel that writes down what passes
`aio`            the same under trio: `listen`, `dial`, `accept`, `secure`, `answer_authentication`
`trio_channel`   `TrioChannel`
`memory`         keeping the memory of one message for the next
===============  ===========================================================================
"""
