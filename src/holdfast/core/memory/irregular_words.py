"""English words whose forms no rule of endings joins: who asks for "buy" means "bought" as well."""

from __future__ import annotations

from typing import Final

from holdfast.core.memory.search_terms import stem

_FORMS: Final = """
    arise arose arisen; awake awoke awoken; bear borne; beat beaten; become became; begin began
    begun; bend bent; bite bit bitten; bleed bled; blow blew blown; break broke broken; breed bred;
    bring brought; build built; buy bought; catch caught; choose chose chosen; cling clung; come
    came; creep crept; deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk; drive
    drove driven; eat ate eaten; fall fell fallen; feed fed; fight fought; flee fled; fly
    flew flown; forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven; freeze
    froze frozen; get got gotten; give gave given; go went gone; grow grew grown; hang hung; hear
    heard; hide hid hidden; hold held; keep kept; kneel knelt; know knew known; lead led;
    learn learnt; lend lent; lose lost; make made; mean meant; meet met; pay
    paid; ride rode ridden; ring rang rung; rise risen; run ran; say said; see seen; seek
    sought; sell sold; send sent; shake shook shaken; shine shone; show shown; shrink
    shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid; speak spoke
    spoken; spend spent; spin spun; stand stood; steal stole stolen; stick stuck; sting stung;
    strike struck; swear swore sworn; sweep swept; swim swam swum; swing swung; take took taken;
    teach taught; tear tore torn; tell told; think thought; throw threw thrown; understand
    understood; wake woke woken; wear wore worn; weep wept; win won; write wrote written;
    child children; foot feet; goose geese; knife knives; man men; mouse mice; person people; shelf
    shelves; tooth teeth; wife wives; wolf wolves; woman women
"""
"""Each base with its other forms; those that are as often other words (left, saw, rose) are not
here."""

_FAMILIES: Final = [frozenset(map(stem, line.split())) for line in _FORMS.split(";")]
_OTHERS: Final = {form: family - {form} for family in _FAMILIES for form in family}


def other_forms(term: str) -> frozenset[str]:
    """The terms that are other forms of the same word: of `buy`, `bought`."""
    return _OTHERS.get(term, frozenset())
