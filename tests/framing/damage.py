"""Messages with a few bytes flipped, lost, put in or repeated: one strategy for both body formats."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st


@st.composite
def damaged(draw: st.DrawFn, seeds: Sequence[bytes], fragments: Sequence[bytes]) -> bytes:
    """One of `seeds`, damaged in one to four places; what is put in is one of `fragments`."""
    body = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["flip", "delete", "insert", "copy"])):
            case "flip" if at < len(body):
                body[at] = draw(st.integers(0, 255))
            case "delete":
                del body[at : at + draw(st.integers(1, 20))]
            case "insert":
                body[at:at] = draw(st.sampled_from(fragments))
            case _:
                body[at:at] = body[at : at + draw(st.integers(1, 70))]
    return bytes(body)
