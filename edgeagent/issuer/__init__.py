"""The signing side: keys, commands, policies, a client, and the reference queue server."""
