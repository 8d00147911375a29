"""Sentences that outlive their session: what a person wants to hold for good, by their words.

Unlike `core.extract.statements`, which finds what may matter in this conversation, it is strict:
what is noted comes back in every later session, so a doubt is a no. A wish for the work at hand
(`I'd like to book…`, `make sure the test passes`), an observation (`it never triggers`) and
whatever was pasted are not taken.

Each group of patterns says what is lost without it: of 277 conventions that a mentor lays down in
half of MemoryCode (250 are noted), and of the 77 sentences noted in 1,666 messages (those with an
answer in LongMemEval, a sixth of the others there and in RealMem, and those of real coding
sessions). Nearly all of these are English.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from holdfast.core.extract.statements import names_secret, raw_sentences, sentences
from holdfast.core.sentences.phrases import RULES_ELSEWHERE, RULES_WIDE, begins, holds
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["rule", "decision", "fact"]

_LONG_CHARS: Final = 2_000
"""In a longer message, only what stands before and behind what was pasted was said."""
_SAID_CHARS: Final = 500
_WORDS_MIN: Final = 3
_TOGETHER_CHARS: Final = 280
"""Two sentences that are one note."""
_WIDE: Final = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts that say a word with a character or two."""

# What a sentence may begin with before it comes to the point.
_LEAD: Final = (
    r"(?:(?:please|pls|also|and|so|then|ok|okay|now|but|well|just|hey|hi|yes|no|oh|again|finally"
    r"|additionally|important|note|reminder|rule|one (?:more )?thing|in general|generally|first"
    r"|second|actually|btw|by the way|[a-z]++,)[,:;!. -]*+\s*+){0,3}"
)

_ORDERS: Final = (
    rf"{_LEAD}(?:always|never|only ever)\s+(?!(?:mind|know|be|remember that you)\b)\w",
    rf"{_LEAD}(?:do not|don't|dont|avoid|stop|refrain from)\s+(?:ever\s+)?(?:us(?:e|ing)|touch"
    r"|chang|modify|edit|delet|remov|push|commit|merg|deploy|rewrit|renam|add|creat|writ|import"
    r"|install|call|send|shar|stor|log|includ|mention|suggest|recommend|schedul|book|format"
    r"|translat|contact|e-?mail|publish|releas|disabl|skip|mock|hard-?cod|put|elid|break)\w*"
    r"(?! (?:it|this|that|these|those|any more|me)\b)",
    rf"{_LEAD}(?:remember|keep in mind|bear in mind|don't forget|do not forget|make a note"
    r"|take note)(?: that\b|\s*:|,? (?:i|my|our)\b|,? to (?:always|never|use|call|write)\b)",
    rf"{_LEAD}call me [\w-]+",
    rf"{_LEAD}(?:for future reference|for the record)\b",
)
"""Openings of a lasting instruction. Without them 10 conventions and 3 sentences are lost."""

_STANDING: Final = (
    r"from now on|from here on|going forward|from today on|henceforth",
    r"in (?:the )?future,? (?:please|always|never|do|don't|use|we|you)",
    r"as a rule|the rule is|under no circumstances|no matter what|at all times|at any time",
    r"(?:every|each) time (?:you|we)|whenever (?:you|we|i (?:say|ask|write|mention|send))",
    r"(?:you|we|i|they|everyone|nobody|names?|tests?|files?|code|commits?|branches|releases?|"
    r"functions?|methods?|variables?|classes)\s+(?:should|must|shall|have to|has to|need to|may)"
    r"\s+(?:always|never|only)",
    r"(?:must|should) (?:always|never)",
    r"(?:please|want you to|like you to|need you to|make sure (?:to|you)|remember to|be sure to)"
    r" (?:always|never)",
    r"(?:to|(?<=, )) ?(?:always|never) (?!(?:be|been|know|mind|get|have|forget)\b)\w+",
    # conventions
    r"when(?:ever)? (?:you(?:'re| are)? )?(?:nam|writ|creat|commit|answer|reply|respond|review|test"
    r"|deploy|us|add|mak|design|document|translat|format|quot)\w* [\w ]{2,50}, (?:please|always"
    r"|never|try|make|use|start|end|begin|add|include|avoid|don't|do not|i(?:'d| would| want| need)"
    r"|you (?:should|must|need))",
    r"(?:start|begin|prefix|end|suffix)(?:ing)? (?:\w+ ){0,5}?names? with",
    r"(?:to|in|for|with) all (?:of )?(?:your|our|my|future) \w+",
    r"for (?:all|every|each) (?:new |future )?(?:functions?|methods?|class(?:es)?|files?|tests?"
    r"|commits?|variables?|answers?|repl(?:y|ies)|modules?|scripts?|messages?|e-?mails?|meetings?)",
    # habits and tastes
    r"(?:i|we) (?:always|never|usually|normally|typically) (?!get|got|see|saw|find|found|had|have"
    r"|know|knew|thought|think|want|need|could|would|received|did|been|ever|feel|felt|wonder|end"
    r"|forget|struggle|dream|seem|really|thought|heard|expect|imagin|hope|lose|strive|try|mix|confus)\w+",
    r"(?:i|we) (?:really |much |generally |usually |strongly |also |personally |always )?"
    r"(?:prefer|hate|dislike|despise|can't stand|cannot stand|don't (?:like|eat|drink)"
    r"|am (?:not )?a (?:big |huge )?fan of)"
    r"(?! (?:the|it|that|this|your|how|what|when|to be able)\b)",
    r"my (?:absolute |all-time |personal )?favou?rite (?:\w+ ){1,3}(?:is|are|was)",
    r"(?:is|are) my (?:absolute |all-time |personal )?favou?rites?",
    # who and what somebody is
    r"my (?:\w+ )?(?:name|wife|husband|partner|son|daughter|kids?|children|dog|cat|birthday|"
    r"e-?mail(?: address)?|phone(?: number)?|address|time ?zone|team|manager|boss|employer|company|"
    r"role|job title|pronouns|native language|mother tongue|user ?name|blood type|anniversary|"
    r"doctor|landlord)(?: is| are)(?! (?:not|going|getting|really|so|very|a bit|been|also|just|"
    r"having|coming|trying))",
    r"i(?:'m| am) (?:allergic|vegan|vegetarian|lactose|diabetic|colou?r-?blind|left-handed|deaf|"
    r"based in|originally from|intolerant|a vegan|a vegetarian)",
    r"i(?:'m| am) (?:currently )?an? (?:[\w-]+ ){0,3}(?:engineer|developer|designer|teacher|student"
    r"|nurse|doctor|lawyer|writer|researcher|scientist|analyst|freelancer|consultant|founder|"
    r"photographer|chef|artist|musician|accountant|programmer|architect|administrator)",
    r"i (?:live|work) (?:in|at|for|as|with|near|from)|i have (?:a|an|two|three|four|\d+) "
    r"(?:[\w-]+ ){0,2}(?:dogs?|cats?|kids?|children|sons?|daughters?|brothers?|sisters?|allerg\w+)",
    r"we (?:use|deploy|host|run on|develop|build|release|ship) "
    r"(?!(?:this|it|that|them|to|the same|here|for|as|when|at|in|a lot)\b)\w+",
    r"(?:our|my) (?:\w+ )?(?:convention|policy|rule|style guide|coding style|stack|standard|"
    r"naming scheme|workflow) (?:is|are|says|requires)",
)
"""Words that make a sentence lasting, wherever they stand. Without them 225 conventions and 7
sentences are lost."""

_CHOSEN: Final = (
    r"(?:we|i)(?:'ve| have)? (?:decided|agreed|settled|opted)(?! to (?:look|check|try|see|start|run"
    r"|read|take))",
    r"(?:it (?:was|is)|we) decided|decision:",
    r"(?:we|i)(?:'ve| have)? (?:chose|chosen|picked) (?!(?:up|it|this|that|them)\b)\w+",
    r"(?:wir|ich) (?:haben?(?: uns)? entschieden|bleiben bei)|entscheidung:",
    r"(?:hemos )?decidido|decidimos|(?:on a|nous avons) décidé|abbiamo deciso",
    r"решили|решено",
)
_CHOOSING: Final = tuple(
    rf"{_LEAD}{who} (?:go with|stick (?:with|to)|keep|use|settle on)\s+"
    r"(?!(?:\w+ing|this|that|it|these|those|option|your|one|the (?:first|second|other|plan))\b)\w"
    for who in ("let's", "we(?:'ll| will)")
)
_PASSING: Final = holds(
    (
        r"for now|yet|this time|just this once|at the moment|right now|today only|until then|again",
        r"(?:can't|cannot|don't|do not) remember|if you ever|if you have any|it would|if i",
        r"feel free|reach out|what i meant|i mean|that's what|let me know|any questions|tell me",
        r"touch on|discuss|talk about|go over|update you|give you|speak with you|shift gears",
        r"immediately",
        r"(?:these|those|the|this|following|few|some) (?:\w+ ){0,2}(?:instructions|guidelines)",
    )
)
"""Words that limit a sentence to the moment, or are only a figure of speech. Without them 35 notes
more are taken of MemoryCode, of which 3 are conventions, and 10 sentences more of messages."""

_NAMED: Final = lazy_pattern(
    r"(?i:\b(?:the|our|my|its) (?:\w+ ){0,2}?(?:ticket|issue|budget|owner|contact|customer|client"
    r"|branch|server|host|port|region|code ?name|version|reviewer|manager|repository|repo|database"
    r"|domain|bucket|id|number|code|key|user ?name|handle) (?:is|are|will be))(?: \w+){0,2}? "
    r"(?:[A-Z]\w+|\S*\d|[a-z]+_\w|[`\"“«]|\w+[/@.]\w)"
)
"""Names that can be looked up: a number, an identifier, a path, a quotation. Without them 56
sentences are lost."""

_DUE: Final = holds(
    (
        r"deadlines?|due (?:on|by|date|in)|no later than|not before",
        r"(?:must|needs? to|has to|have to) be (?:done|ready|finished|submitted|in|out|shipped|"
        r"delivered|live|sent) (?:by|before|on)",
        r"(?:launch|release|demo|exam|interview|wedding|appointment|presentation|conference|trip|"
        r"move|surgery|go-live) is (?:on|at|in|scheduled|set)",
        r"spätestens|nicht vor dem|fecha límite|a más tardar|o prazo é|la scadenza|date limite"
        r"|au plus tard|не позднее",
    )
)
"""Dates to keep. No set of ours has one: nothing is lost without these words."""
_DATE: Final = lazy_pattern(
    r"\b(?:\d{1,4}(?:st|nd|rd|th)?\b|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|"
    r"march|april|may|june|july|august|september|october|november|december|tomorrow|midnight|noon|"
    r"next (?:week|month|year)|end of (?:the )?(?:week|month|year|day))\b|\wtag\b",
    re.IGNORECASE,
)

_RULES_CHINESE: Final = (
    r"请记住|請記住|^记住|^記住|以后(?:都|请)|今后(?:请|都)|务必|绝(?:对)?不要|永远不要|请(?:总是|始终|不要)"
    r"|我(?:更)?(?:喜欢|偏好)(?![这那你]|的是)|我叫|我的名字"
)
_SHOUTED: Final = lazy_pattern(r"[A-Z]{3} [A-Z]{3}")
"""Prompts of programs are; people shout a word at a time."""
_POINTS_BACK: Final = lazy_pattern(
    r"\b(?:them|they|these|those|this|it|its|their)\b", re.IGNORECASE
)
_ORDER: Final = begins(_ORDERS)
_LASTING: Final = holds(_STANDING)
_TASTE: Final = lazy_pattern(
    rf"(?:\A\W*{_LEAD}|[,;:.] +|\b(?:and|but|so|because|plus|also) )i (?:really |absolutely |also "
    r"|just )?(?:like|love|enjoy) (?!(?:the|that|this|it|its|how|what|when|your|you|these|those"
    r"|some|for|them|where|best|seeing|to (?:know|hear|see|get|learn|have|do|make|try|book|change"
    r"|add|take|start|go|find|ask|think|share|celebrate|match))\b)\w+",
    re.IGNORECASE,
)
_LASTING_ELSEWHERE: Final = holds(RULES_ELSEWHERE, (_RULES_CHINESE, *RULES_WIDE[1:]))
"""The same in other languages, of which no set of ours has any."""
_ENGLISH: Final = lazy_pattern(
    r"\b(?:the|and|of|that|with|you|my|are|for|this|it)\b", re.IGNORECASE
)
"""Words that tell English from languages in which `no` and `die` are words as well."""
_CHOICE: Final = holds(
    _CHOSEN, (r"(?:我们?|咱们|我們)(?:已经|已經)?[决決]定(?!不)|결정했|決めました",)
)
_CHOICE_NOW: Final = begins(_CHOOSING)
_FACT_ELSEWHERE: Final = holds(
    (r"heißt|se llama|chama-se|si chiama|s'appelle|называется|зовут",),
    (r"截止|期限|締め切り|という名前|마감|이름은",),
)

_TAG: Final = lazy_pattern(r"<(/?)([A-Za-z][\w-]{0,40})(?: [^<>\n]{0,200})?>")
_MACHINE: Final = lazy_pattern(
    r"\A[\W\d_]*+(?:raise|return|def|class|import|traceback|\w*error)\b[: (]"
    r"|:\d+(?::\d+)?:|\A[^\s/\\]*+[/\\]\S+:|\A\d+[\s:|]\s*\S|^\||\|\s*\Z|[{};]\s*\Z|=>|->|\A[A-Z_]{3,}\W*:"
    r"|[\w)]\(\)?\Z|\A[#*_`>|~-]|:\s*\Z|…\Z|\.\.\.\Z|\*\*"
)
"""Lines of programs and of documents, and sentences that go on elsewhere."""


def user_instructions(text: str) -> Iterator[tuple[str, Kind]]:
    """Yield the lasting instructions in a user's message, sentence by sentence.

    One that points back (`Always start them with p_`) is taken with the sentence before it.
    """
    said = _strip_pasted(text)
    flat = ""
    before: list[str] = []
    for sentence in raw_sentences(said):
        kind = _kind(sentence)
        if kind is not None:
            if names_secret(sentence):
                continue
            if _POINTS_BACK.search(sentence):
                flat = flat or " ".join(said.split())
                last = next((line for line in reversed(before) if not names_secret(line)), "")
                both = f"{last} {sentence}"
                if last and len(both) <= _TOGETHER_CHARS and both in flat:
                    sentence = both
            yield sentence, kind
        before.append(sentence)


def agent_decisions(text: str) -> Iterator[str]:
    """Return the decisions that a reply states; announced steps are not decisions."""
    return iter(sentences(text, _is_choice))


@lru_cache(maxsize=4_096)
def _is_choice(sentence: str) -> bool:
    return _is_sentence(sentence) and _CHOICE.search(sentence) is not None


def _kind(sentence: str) -> Kind | None:
    if not _is_sentence(sentence) or _PASSING.search(sentence):
        return None
    if _CHOICE.search(sentence) or _CHOICE_NOW.match(sentence):
        return "decision"
    if _ORDER.match(sentence) or _LASTING.search(sentence) or _TASTE.search(sentence):
        return "rule"
    if not _ENGLISH.search(sentence) and _LASTING_ELSEWHERE.search(sentence):
        return "rule"
    is_due = _DUE.search(sentence) and _DATE.search(sentence)
    is_fact = is_due or _NAMED.search(sentence) or _FACT_ELSEWHERE.search(sentence)
    return "fact" if is_fact else None


def _is_sentence(sentence: str) -> bool:
    is_long_enough = len(sentence.split()) >= _WORDS_MIN or _WIDE.search(sentence)
    is_spoken = not _MACHINE.search(sentence) and not _SHOUTED.search(sentence)
    return bool(is_long_enough) and is_spoken


def _strip_pasted(text: str) -> str:
    """A message without what was pasted into it, as far as one can tell."""
    text = _outside_tags(text)
    if len(text) <= _LONG_CHARS:
        return text
    start = text[:_SAID_CHARS].rpartition("\n\n")[0]
    end = text[-_SAID_CHARS:].partition("\n\n")[2]
    return f"{start}\n{end}"


def _outside_tags(text: str) -> str:
    """Remove the content of tags: a program put it there, or it is a quotation."""
    kept: list[str] = []
    place, opened = 0, ""
    for tag in _TAG.finditer(text):
        name = tag[2].casefold()
        if not opened and not tag[1]:
            opened, start = name, tag.start()
            kept.append(text[place:start])
        elif opened == name and tag[1]:
            opened, place = "", tag.end()
            kept.append("\n")
    return "".join(kept) + (text[start:] if opened else text[place:])
