"""The daemon: builds everything, runs it under one TaskGroup, stops it in order.

    lock > database (a damaged one is set aside) > epoch, incarnation, first audit rows
    > devices, trust, broker, cloud, operator's door > READY

It needs neither broker, cloud, network nor a right clock to start (SPEC H3); each is waited for by the
flow that wants it.
"""
