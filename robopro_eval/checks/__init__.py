"""`eval-check` and `eval-replay`: does a server speak the protocol, and does it still say what it said.

==================  ==================================================================================================
`core`              what a check is, and how it can end
`link`              connections to the server under test: dialed, or accepted from a model that dials
`bench`             what a check works with: conversations, raw frames, what is known of the server
`replies`, `values`, `sessions`, `errors`, `survival`, `access`
                    the checks, by theme; each a small function and a row of its module's table
`catalogue`         all rows in the order in which they run
`running`           runs them, and decides what a failure means for the rest
`report`            the same findings as a table, as lines and as JSON
`difference`        two values compared by key path and tolerance
`replay`            recorded requests sent again, replies compared
`settings`, `check_cli`, `replay_cli`
                    the two programs
==================  ==================================================================================================
"""
