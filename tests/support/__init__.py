"""Worlds for tests: brokers, peers and fakes with verbs; nothing here is a test."""
