"""Two of the three drivers that perform the effects of flows: one blocks, one awaits.

The third is the simulator (`holdfast.testing.simulator`). An exception that an effect raises is
raised into the flow, so that the flow can leave the session in a sound state. An exception of a
model or a tool is a result like any other. An append that has begun is always finished.
"""
