"""A long past for a hub's database: finished commands by the thousand, without working them."""

from edgeagent.store.database import Snapshot, Transaction

_TABLES = ("inbox", "receipts", "operations")


def lengthen(tx: Transaction, *, by: int) -> None:
    """Add finished commands, each with its receipt and operation: copies of the first, under other names.

    They are spread over all admitted devices. The audit trail is not lengthened: nothing looks back into it
    while a command is worked.

    Args:
        tx: in which.
        by: so many. The first command of the database has to be final.
    """
    [(last, devices)] = tx.rows("SELECT (SELECT max(run) FROM inbox), (SELECT count(*) FROM devices)")
    made = {
        "run": "n.run",
        "sequence": "n.run",
        # In no order, as what an issuer draws and what a digest is: the index grows everywhere.
        "command": "'past-' || hex(n.run * 2654435761 % 4294967296)",
        "operation": "hex(n.run * 2654435761 % 4294967296)",
        "key": "hex(n.run * 2654435761 % 4294967296)",
        "device": "d.device",
    }
    for table in _TABLES:
        columns = _columns(tx, table)
        values = ", ".join(made.get(name, f"f.{name}") for name in columns)
        tx.execute(
            f"""
            WITH RECURSIVE
                 n (run) AS (SELECT :last + 1 UNION ALL SELECT run + 1 FROM n WHERE run < :last + :by),
                 d AS MATERIALIZED (
                     SELECT row_number() OVER (ORDER BY device) - 1 AS number, device FROM devices)
            INSERT INTO {table} ({", ".join(columns)})
            SELECT {values} FROM {table} f CROSS JOIN n JOIN d ON d.number = n.run % :devices WHERE f.run = 1
            """,  # noqa: S608 - the schema's names
            {"last": last, "by": by, "devices": devices},
        )


def _columns(db: Snapshot, table: str) -> list[str]:
    return [
        str(row["name"]) for row in db.rows("SELECT name FROM pragma_table_info(:table)", {"table": table})
    ]
