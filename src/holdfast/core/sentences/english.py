"""Forms of English sentences that lay something down, clause by clause.

A form is about grammar: an order begins with a verb, a rule has a modal verb and a subject, a fact
says of something of one's own what it is. What is told (`I tried it`, `it was late`) has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.sentences.facts import (
    DISAGREES,
    DUE,
    FINITE,
    FRAGMENT,
    HABIT,
    I_AM,
    LABEL,
    NAMED,
    NEEDS,
    NOT_OWN,
    OWN,
    PLACED,
    QUANTITY,
    SPELLED,
    STATED,
)
from holdfast.core.sentences.orders import (
    AFTER_NOUN,
    AFTER_STEERING,
    BAN,
    CONDITION,
    DO_WORK,
    I_CANNOT,
    LASTING,
    LICENCE,
    LIMIT,
    MAIN_CLAUSE,
    NO,
    NOT_RULED,
    NOT_UNIVERSAL,
    NOTHING,
    NOUN_VERB,
    RULED,
    STEER_LIMIT,
    UNIVERSAL,
    WHOEVER,
    YOU_MAY,
)
from holdfast.core.sentences.vocabulary import (
    ARTICLES,
    DEMANDS,
    LASTING_WORDS,
    MODALS,
    ORDER_VERBS,
    PAST_WORDS,
    STATE_VERBS,
    STEERING_VERBS,
)
from holdfast.core.sentences.wishes import (
    ASK,
    CONTRAST,
    DECISION,
    DEMAND,
    POLITE,
    POLITE_VERBS,
    WISH,
)
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

RULE, FACT, LIKELY, NONE = range(4)
"""The strength of a form: surely a rule or a decision, a fact, likely an order or a wish, none."""

_FRAGMENT_WORDS: Final = 9
_ASIDE: Final = lazy_pattern(r"\s{0,4}\([^()]{0,200}\)")
_CLAUSE: Final = lazy_pattern(
    r"\s{0,4}[,;]\s{1,4}|:\s{1,4}|\s{1,4}[-–—]\s{1,4}|\s{1,4}(?=(?:but|so|because)\s)"
)
_LEAD: Final = lazy_pattern(
    r"(?:(?:please|pls|kindly|also|and|so|then|ok|okay|oh|hey|hi|well|btw|by the way|just|again"
    r"|actually|honestly|tbh|seriously|yes|yeah|no(?=[,:;!.])|sorry|note|reminder|important|but"
    r"|look|haha|now"
    r"|one (?:more )?thing|heads up|fyi|first of all|first|next|finally|if possible|in general"
    r"|generally|ideally|maybe|anyway|because|once more|to be clear|for clarity|still"
    r"|[a-z]{3,30}ly)"
    r"(?:\s{0,4}[,:;!.]{1,4}\s{0,4}|\s{1,4}(?!\Z))){1,4}"
)
_PAST: Final = (
    r"(?:\w{2,40}ed|was|were|had|did|didn't|went|took|ran|saw|got|made|lost|knew|thought|felt|found"
    r"|came|gave|kept|left|met|said|told|wrote|sent|spent|stood|began|broke|brought|built"
    r"|could|couldn't|would have|used to|wasn't|weren't|hadn't|led|fell|grew|wondered)"
)
_TOLD: Final = lazy_pattern(
    rf"(?:i|we|he|she|they|it|this|that|there|nobody|somebody|someone|everyone|everybody|you)"
    r"(?!'ve got\b)(?:'ve| have|'s| has|'d)? (?:(?:just|never|always|also|already|only|all|both"
    r"|really|still"
    rf"|not|then|even|even) ){{0,4}}(?!(?:need|decided|agreed|chose|settled|opted|committed"
    rf"|promised"
    rf"|changed my mind|named|allowed|supposed|called|spelled|pronounced|required|needed|expected"
    rf"|planned"
    rf"|scheduled|shared|limited|capped|licensed|based|encrypted|billed)\b){_PAST}\b"
    r"|(?!my \w{1,40} (?:told|asked) me to)(?:the|our|my|his|her|their|some|each|most|those|that"
    r"|this"
    r"|every)"
    r"(?: (?!(?:is|are|be|gets?|stays?|must|should|can|may|has to|goes|will)\b)[\w'-]{1,40}){1,5}? "
    rf"(?:just |only |never |also |always ){{0,4}}{_PAST}\b(?! (?:with|by|as|in cents|on the"
    rf"|for)\b)"
    r"|(?:i|we)(?:'ll| will| am going to|'m going to|'ve been| have been| was| were)\b"
    r"(?! (?:never|not|only|always|go with|use|keep|stick|stay)\b)"
    r"|(?:yesterday|last (?:week|night|year|month|time)|this morning|in those days|ayer)\b"
)
"""The beginning of a clause that tells what happened."""
_HAPPENED: Final = lazy_pattern(
    r"\b(?:yesterday|last (?:week|night|year|month)|this morning|in those days|that year"
    r"|(?:must|should|could|would|can't|might) have (?:been|had|gone|seen|known|bought|stood|made"
    r"|done|\w{1,40}ed)|turned out|i think the|looks? like|seems? (?:to|like)|it seems"
    r"|still (?!(?:supports|applies|holds|needs|stays)\b)\w{1,40}s\b|for some reason"
    r"|not (?:allowed|able) to leave|were (?:not )?(?:allowed|able))\b"
)


def read_english(text: str, words: Set[str]) -> int:
    """The strength of the strongest form in a sentence of these words, all in lower case."""
    if not PAST_WORDS.isdisjoint(words) and _HAPPENED.search(text):
        return NONE
    if "(" in text:
        text = _ASIDE.sub("", text)
    clauses = [clause for clause in _CLAUSE.split(text) if clause]
    found = min((_read_clause(clause, words) for clause in (text, *clauses[1:])), default=NONE)
    if found == RULE:
        return RULE
    is_lasting = not LASTING_WORDS.isdisjoint(words) and LASTING.search(text) is not None
    if is_lasting and not _TOLD.match(_bare(text)):
        return RULE
    if len(clauses) > 1 and CONDITION.match(text) and _has_main_clause(clauses[1:]):
        return RULE
    if found != NONE:
        return found
    return _read_whole(text, clauses)


def is_polite_request(text: str) -> bool:
    """Return whether a question asks to do something for good: `Could you keep it short?`"""
    asked = POLITE.match(_bare(text))
    if asked is None:
        return False
    verb = asked[1].partition(" ")[0]
    if verb in POLITE_VERBS or " " in asked[1]:
        return True
    return STEER_LIMIT.search(text) is not None and verb in ORDER_VERBS


def _has_main_clause(clauses: Iterable[str]) -> bool:
    for clause in map(_bare, clauses):
        if _TOLD.match(clause):
            return False
        if MAIN_CLAUSE.match(clause) or _order(clause, is_conditional=True) != NONE:
            return True
    return False


def _bare(clause: str) -> str:
    """A clause without the words that lead up to it."""
    found = _LEAD.match(clause)
    return clause[found.end() :] if found else clause


def _read_clause(whole: str, words: Set[str]) -> int:
    clause = _bare(whole)
    if not clause or _TOLD.match(clause):
        return NONE
    if BAN.match(clause) or DECISION.match(clause) or I_CANNOT.match(clause):
        return RULE
    if WISH.match(clause) or SPELLED.match(clause):
        return RULE
    order = _order(clause)
    if order == RULE:
        return RULE
    if not MODALS.isdisjoint(words):
        is_ruled = RULED.match(clause) and not NOT_RULED.match(clause)
        if is_ruled or YOU_MAY.match(clause) or LICENCE.match(clause):
            return RULE
    if _is_fact(clause, words):
        return FACT
    if order != NONE or ASK.match(clause) or NOTHING.match(clause) or WHOEVER.match(clause):
        return LIKELY
    if UNIVERSAL.match(clause) and not NOT_UNIVERSAL.match(clause):
        return LIKELY
    if not DEMANDS.isdisjoint(words) and DEMAND.match(clause):
        return LIKELY
    return NONE


def _is_fact(clause: str, words: Set[str]) -> bool:
    if I_AM.match(clause) or HABIT.match(clause) or NAMED.match(clause):
        return True
    if STATE_VERBS.isdisjoint(words):
        return False
    if OWN.match(clause):
        return not NOT_OWN.match(clause)
    is_stated = STATED.match(clause) and not DISAGREES.search(clause)
    return bool(is_stated or PLACED.match(clause))


def _order(clause: str, *, is_conditional: bool = False) -> int:
    """The strength of a clause that begins with a verb."""
    words = clause.split(None, 2)
    verb = words[0].rstrip(",.!:") if words else ""
    if verb not in ORDER_VERBS or len(words) < 2 or words[1].strip(",.") in AFTER_NOUN:
        return LIKELY if is_conditional and verb in ORDER_VERBS else NONE
    if len(words) > 2 and words[1] not in ARTICLES and NOUN_VERB.match(words[2]):
        return NONE
    if verb == "do" and DO_WORK.match(clause):
        return LIKELY
    if verb in STEERING_VERBS:
        if AFTER_STEERING.match(clause) or STEER_LIMIT.search(clause):
            return RULE
        return LIKELY if is_conditional or verb == "be" else NONE
    return RULE if LIMIT.search(clause) else LIKELY


def _read_whole(text: str, clauses: list[str]) -> int:
    """The strength of a sentence without a clause that has a form."""
    bare = _bare(text)
    if _TOLD.match(bare) or any(_TOLD.match(_bare(clause)) for clause in clauses):
        return NONE
    if LABEL.match(bare):
        return FACT
    if (DUE.match(bare) and NEEDS.match(bare)) or QUANTITY.match(bare):
        return FACT
    if CONTRAST.match(text) or NO.match(bare):
        return LIKELY
    words = bare.split()
    if len(words) <= _FRAGMENT_WORDS and not FINITE.search(bare):
        for clause in (bare, *map(_bare, clauses)):
            if FRAGMENT.match(clause) or NO.match(clause):
                return LIKELY
    return NONE
