"""Simulated appliances: they behave as the real firmware does, and as badly.

Nothing here imports edgeagent, and edgeagent imports nothing from here: both would share a
misreading. What a family does was read from its maker's documentation and source; where those leave
something open the module says *assumed*.

    fields           strict reading of files and control lines
    journal          what was heard and done, as JSON lines for an outside verdict
    faults           what may go wrong, as data; ``injector`` decides when, by seed
    link             one MQTT connection, from plug in to plug out
    firmware         what a family's firmware is given and gives; ``walk`` its sensors
    shelly, tasmota  the families
    appliance        firmware, link, faults and journal in one case
    specification    which appliances there are
    fleet, burst     many of them; load
    control          what may be asked of a running fleet, line by line
    command_line     ``python -m firmware_sim --help``
"""
