"""Why a request to the agent was not done."""

from typing import Literal

from edgeagent.contracts.door import Contract


class Refusal(Contract):
    """Why a request was not done."""

    type: Literal["refusal"] = "refusal"
    error: str
    advice: str = ""
