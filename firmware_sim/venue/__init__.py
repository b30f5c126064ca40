"""A living venue in one command, and what it proves: ``python -m firmware_sim.venue``.

A broker, a dozen simulated appliances, the reference cloud and the real agent, each a process of its own
on loopback, all in one folder. Chapters tell what may happen to a hub; each is judged by three witnesses,
never by what the agent says of itself: the appliances' journal (what they did), a listener at the broker
(what they said), the cloud (what arrived). Everything here speaks to the product as anybody could: by its
command line, MQTT and HTTP.

From the ground up:

    errors          what ends a venue
    children        its processes: started, ended, none left behind
    loopback        ports
    evidence        what the witnesses saw, as plain values
    verdict         statements about it, true or false: pure functions
    telling         how it is told to whoever watches
    broker, line, cloud, hub, appliances, listener
                    the parties
    stage           all of them together
    chapters        the stories, one file each, and their list
    play            playing them, and the verdict over all
    by_hand         what to type into a venue that stays up
    command_line    ``python -m firmware_sim.venue --help``
"""
