"""Drills: the engine tried on a virtual appliance, in the running agent, apart from everything real."""
