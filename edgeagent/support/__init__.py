"""The support bundle: what somebody who helps from afar needs, without what is nobody else's."""
