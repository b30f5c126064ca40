"""Tests of edgeagent/flows: the upward and the downward half, on fakes of the outside and a real store."""
