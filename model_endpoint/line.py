"""Who is served and who waits, where a policy serves one simulator at a time: first come, first served.

No socket and no clock. A connection joins with its first request, so one that never asks anything is in nobody's way.
"""

from __future__ import annotations

import trio


class Place:
    """One simulator's place: 0 while it is served, 1 for the next one, and so on. Get one from :meth:`Line.join`."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._moved = trio.Event()

    @property
    def number(self) -> int:
        return self._line.number_of(self)

    async def moved(self) -> None:
        """Wait until the number has become smaller."""
        await self._moved.wait()

    def leave(self) -> None:
        """Make room, served or not; those behind move up. Safe to repeat."""
        self._line.leave(self)

    def move(self) -> None:
        """Tell whoever waits for :meth:`moved`."""
        self._moved.set()
        self._moved = trio.Event()


class Line:
    """The first of the line is served."""

    def __init__(self) -> None:
        self._places: list[Place] = []

    @property
    def waiting(self) -> int:
        """How many wait, the one that is served not counted."""
        return max(0, len(self._places) - 1)

    def join(self) -> Place:
        """Take the last place."""
        place = Place(self)
        self._places.append(place)
        return place

    def leave(self, place: Place) -> None:
        if place in self._places:
            index = self._places.index(place)
            self._places.remove(place)
            for behind in self._places[index:]:
                behind.move()

    def number_of(self, place: Place) -> int:
        return self._places.index(place)
