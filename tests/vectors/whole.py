"""The file of vectors, as it has to be: the same bytes wherever it is made."""

import json

from edgeagent.contracts.door import encode
from edgeagent.contracts.scalars import timestamp_text
from tests.vectors import of_approvals, of_commands, of_envelopes, of_orders
from tests.vectors.making import DAY, NOW, SECOND, terms
from tests.vectors.vector import Vectors


def whole() -> Vectors:
    """Every vector with the policies that they are judged by."""
    return Vectors(
        policies={
            "ordinary": terms(),
            of_approvals.GUARDED: of_approvals.guarded(),
            of_orders.WATCHED: of_orders.watched(),
            "over": terms(issued_at=timestamp_text(NOW - 30 * DAY), expires_at=timestamp_text(NOW - SECOND)),
        },
        vectors=[
            *of_envelopes.vectors(),
            *of_commands.vectors(),
            *of_approvals.vectors(),
            *of_orders.vectors(),
        ],
    )


def text() -> str:
    """The file: a line for each policy and each vector, so that a change shows where it is."""
    fields = json.loads(encode(whole()))
    policies = ",\n".join(
        f'"{name}":{json.dumps(one, ensure_ascii=False)}' for name, one in fields["policies"].items()
    )
    vectors = ",\n".join(json.dumps(one, ensure_ascii=False) for one in fields["vectors"])
    return f'{{"policies":{{\n{policies}\n}},\n"vectors":[\n{vectors}\n]}}\n'
