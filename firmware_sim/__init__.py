"""Simulated appliances: they behave as the real firmware does, and as badly.

Nothing here imports edgeagent, and edgeagent imports nothing from here: both would share a misreading.
What a family does was read from its maker's documentation and source; where those leave something open the
module says *assumed*. Simulated is what is told over MQTT, and how a device updates its firmware: it fetches
the image that it is told by a real GET, writes it to its flash, and boots what is whole.

From the ground up:

    fields           strict reading of files and control lines
    firmware         what a family's firmware is given and what it gives
    part, walk       things that can be set, things that can be measured
    image            what an image of a firmware says of itself; ``image_line`` makes one
    flash            two slots, the record of which one boots, and the boot; one area for small devices
    updating         a download into the spare slot, the same in every family
    shelly, tasmota  families with a network of their own
    zigbee2mqtt      a bridge, and the devices behind it
    display          a device of no particular make, updated from a URL
    television       a hostile one: speaks for others, and abuses file servers
    specification    which appliances there are
    journal          what was heard and done, as JSON lines for an outside verdict
    faults           what may go wrong, as data; ``injector`` decides when, by seed
    link, fetching   one MQTT connection, from plug in to plug out; one download
    wiring, board    between a firmware and the world: timers, journal, faults
    appliance        all of it in one case
    fleet, burst     many of them; load
    control          what may be asked of a running fleet, line by line
    command_line     ``python -m firmware_sim --help``
    venue            ``./run``: chapters and a verdict; speaks only by processes, CLI, MQTT, HTTP

In a test, on the event loop:

    world = World(broker=Broker("127.0.0.1", 1883), journal=Journal())
    lamp = TasmotaSpecification(model=TasmotaModel.LIGHT, mac="02A1B2C3D4E5")
    async with Appliance(lamp, world) as device:
        device.set_faults([Fault(kind=Kind.DROP, nth=1)])
        ...
"""
