"""What can go wrong, sorted by who acts.

    AgentError
        RejectedError           the sender is wrong: record, answer, never retry
            MalformedError      not the bytes that the format allows
            UnknownError        nothing is called what was said
            AmbiguousError      several things are called what was said
        SuspiciousError         the sender may be hostile: quarantine, alert
        TransientError          the world is busy: retry within the policy
            StorageError        the disk did not take it; nothing of it was saved
        LostRaceError           somebody else acts: stop quietly
        ConfigurationError      the operator acts: exit 78, do not restart
        BrokenInvariantError    we are wrong: exit, and let systemd restart us
            IllegalTransitionError

An error is raised low with its cause (``from``), translated at the adapter and caught once per
class. It is logged or raised, never both.
"""


class AgentError(Exception):
    """The root: every error that edgeagent raises on purpose."""


class RejectedError(AgentError):
    """What was sent can never be taken, however often it is sent."""


class MalformedError(RejectedError):
    """The bytes are not what the format allows."""


class UnknownError(RejectedError):
    """Nothing is called what was said."""


class AmbiguousError(RejectedError):
    """What was said is the beginning of several names."""


class SuspiciousError(AgentError):
    """What was sent looks like an attack."""


class TransientError(AgentError):
    """It did not work this time; the same again may."""


class StorageError(TransientError):
    """The store could not commit; nothing of the transaction is saved."""


class LostRaceError(AgentError):
    """Somebody else has acted meanwhile; there is nothing left to do."""


class ConfigurationError(AgentError):
    """The operator has to act before the agent can run."""


class BrokenInvariantError(AgentError):
    """A promise of our own code does not hold."""


class IllegalTransitionError(BrokenInvariantError):
    """A move that the table of states does not list."""
