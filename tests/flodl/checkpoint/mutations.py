"""Files that were changed on purpose and sealed again, as somebody who knows the format would."""

import copy
import json
import struct

from flodl.checkpoint.format import ALIGNMENT, NO_SUM, checksum


def metadata_of(data):
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length])["__metadata__"]


def resealed(data, **changes):
    """Return a file with other texts in its metadata and a seal that fits."""
    (length,) = struct.unpack("<Q", data[:8])
    document = json.loads(data[8 : 8 + length])
    document["__metadata__"] |= {**changes, "fdl.seal": NO_SUM}
    text = json.dumps(document, separators=(",", ":")).encode()
    size = -(-(8 + len(text)) // ALIGNMENT) * ALIGNMENT - 8
    unsealed = struct.pack("<Q", size) + text.ljust(size)
    seal = checksum(unsealed)
    return (
        unsealed.replace(f'"fdl.seal":"{NO_SUM}"'.encode(), f'"fdl.seal":"{seal}"'.encode())
        + data[8 + length :]
    )


# Values that a field of another type could have.
ODD = (
    None, True, -1, 2**70, 1.5, float("nan"), "", "weight", [], {}, {"list": []}, {"dict": []},
    {"tensor": "nowhere"}, {"tensor": []}, {"tuple": [1, 2]}, {"dict": [[1, 2]]}, {"other": 1},
    {"list": [{"dict": []}]}, {"dict": [[{"list": []}, 1]]}, {"dict": 5}, {"list": 5},
)  # fmt: skip


def places_of(form, place=()):
    """Return the place of every value in a JSON document."""
    found = [place]
    pairs = (
        form.items()
        if isinstance(form, dict)
        else enumerate(form)
        if isinstance(form, list)
        else ()
    )
    for key, each in pairs:
        found += places_of(each, (*place, key))
    return found


def mutated_document(text, generator):
    """Return a JSON text in which one to three values were replaced, removed or swapped."""
    form = json.loads(text)
    for _ in range(generator.randrange(1, 4)):
        places = places_of(form)
        place = generator.choice(places)
        if not place:
            return json.dumps(generator.choice(ODD))
        holder = form
        for key in place[:-1]:
            holder = holder[key]
        match generator.randrange(4):
            case 0:
                del holder[place[-1]]
            case 1:
                other = form
                for key in generator.choice(places):
                    other = other[key]
                holder[place[-1]] = json.loads(json.dumps(other))
            case _:
                holder[place[-1]] = copy.deepcopy(generator.choice(ODD))
    return json.dumps(form)
