"""Imported by the process that others are forked from: what a first turn loads is loaded then."""

from holdfast.engine.session.session import Session
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.scripted import ScriptedModel

with Session.open("first", model=ScriptedModel(["done"]), store=MemoryStore()) as session:
    session.say("Begin.")
