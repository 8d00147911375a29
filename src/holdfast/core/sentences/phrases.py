"""Patterns for common phrases in several languages, for texts in lower case.

A pattern is a regular expression; `'` in it also stands for the typographic apostrophe. Scripts
that put no space between words have their own tables: there, a word has no edges.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REFUSALS: Final = (
    # English
    r"(?:i'm|i am|we're) (?:(?:very|really|so) )?sorry\b.{0,80}?\b(?:can|unable|won't|not|decline)",
    r"(?:sorry|apologies|unfortunately|i apologi[sz]e)\b.{0,80}?\b(?:can|unable|won't|not|decline)",
    r"i (?:can't|cannot|can not|won't|will not|must decline|am (?:unable|not able))\b",
    r"i'm (?:unable|not able|just an? ai)\b",
    r"as an? (?:ai|large|language)\b.{0,20}?\b(?:model|assistant)\b",
    r"this (?:request|content|conversation) (?:violates|cannot be)\b",
    # German
    r"(?:es tut mir leid|tut mir leid|entschuldigung|leider)\b.{0,60}?\b(?:kann|darf|nicht|kein)",
    r"ich (?:kann|darf) .{0,60}?\bnicht\b",
    # Spanish, Portuguese, Italian
    r"(?:lo siento|disculpa|perdón|lamentablemente)\b.{0,60}?\bno\b",
    r"(?:desculpe|lamento|infelizmente|sinto muito)\b.{0,60}?\bn[ãa]o\b",
    r"(?:mi dispiace|purtroppo|spiacente)\b.{0,60}?\bnon\b",
    r"(?:no puedo|não posso|non posso)\b",
    # French, Dutch
    r"(?:je suis désolée?|désolée?|malheureusement)\b.{0,60}?\b(?:ne|pas|impossible)\b",
    r"je ne (?:peux|puis)\b",
    r"(?:het spijt me|helaas)\b.{0,60}?\b(?:kan|niet)\b",
    # Russian, Polish
    r"(?:извините|простите|к сожалению|мне жаль)\b.{0,60}?\bне\b",
    r"я не могу\b",
    r"(?:przepraszam|niestety)\b.{0,60}?\bnie\b",
    # Chinese, Japanese, Korean, Arabic
    r"(?:很?抱歉|对不起|對不起|不好意思).{0,30}?(?:无法|無法|不能|不可以|没有办法|沒辦法)",
    r"我(?:无法|無法|不能)",
    r"(?:申し訳|すみません|恐れ入りますが).{0,40}?(?:できません|かねます|ございません)",
    r"(?:죄송|미안).{0,40}?(?:없습니다|않습니다|못)",
    r"(?:عذر|آسف|للأسف).{0,40}?(?:لا|غير)",
)
"""Openings of a refusal."""

PLANS: Final = (
    r"(?:sure|okay|ok|certainly|of course|understood|alright|got it|absolutely)\b",
    r"(?:now )?(?:i'll|i will|i'm going to|i am going to|let me|let's|i need to|i should)\b",
    r"(?:first|here),? (?:i'll|i will|let me)\b",
    r"the user (?:wants|asks|asked) (?:me )?(?:to|for) (?:a )?summar",
    r"(?:ich werde|lass mich|zuerst werde ich|gerne)\b",
    r"(?:voy a|déjame|permíteme|claro|vou)\b",
    r"(?:je vais|laissez[- ]moi|bien sûr)\b",
    r"(?:ora )?(?:riassumerò|farò)\b",
    r"(?:сейчас я|я сейчас|давайте|хорошо)\b",
    r"好的|我(?:将|會|会|来|來)(?:总结|總結|概括|为)|让我|讓我",
    r"(?:これから|では|まず).{0,20}?(?:要約|まとめ)",
)
"""Openings of a text that only announces what will be done."""

RULES_ELSEWHERE: Final = (
    # German
    r"immer|niemals?|nie|ab (?:jetzt|sofort)|auf keinen fall",
    r"merke? dir|denke? daran|vergiss nicht|bitte (?:kein\w*|nicht|immer|nur)",
    r"(?:ich|wir) (?:bevorzuge\w*|möchten?|mag|will|wollen)",
    # Spanish, Portuguese, Italian
    r"siempre|nunca|recuerda|prefiero|preferimos|a partir de ahora",
    r"no (?:uses?|toques?|olvides?|debes)",
    r"sempre|lembre-se|prefiro|a partir de agora|não (?:use|esqueça|deve)",
    r"non (?:\w+ ){1,3}?mai|mai più|ricorda(?:ti)? che|preferisco|d'ora in poi|non dimenticare",
    # French, Dutch
    r"toujours|jamais|rappelle[- ]toi|souviens[- ]toi|n'oubliez? pas|désormais",
    r"(?:je|nous) préf[èé]r\w+|il (?:ne )?faut",
    r"altijd|nooit|onthoud|vanaf nu",
    # Russian
    r"всегда|никогда|запомни\w*|помни|не забудь\w*|предпочита\w+|нельзя|впредь",
)
"""Words with which somebody lays something down, in languages other than English."""

RULES_WIDE: Final = (
    r"记住|記住|总是|總是|始终|始終|永远|永遠|从不|從不|绝不|絕不|不要|不许|必须|必須|务必|偏好|以后都|今后",
    r"必ず|絶対に|いつも|常に|決して|覚えて|忘れないで|してはいけ|しないで|これからは",
    r"항상|절대|기억해|하지 ?마|반드시|앞으로",
    r"دائما|أبدا|تذكر",
)

_SENTENCE_END: Final = lazy_pattern(
    r"[.!?。！？\n](?<!\b[MD]r\.)(?<!\bM[rs]s\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\b[ei]\.[ge]\.)(?<!\bvs\.)"
    r"(?:(?<!\n)[\"'”’)]*\s+|(?<=[。！？])|(?<=\n)\n*)"
)
"""The last character of a sentence and the space behind it, or line ends. It begins with a set of
characters, which is looked for several times as fast as places behind one."""

QUESTIONS: Final = (
    r"why|what|when|where|who|how|is|are|does|do (?:you|we|i)|did|can|could|would|should",
    r"warum|wie|was|wo|wann|wer|por qué|qué|cómo|pourquoi|comment|est-ce",
)
"""Openings of a question without a question mark."""


def begins(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches a text that begins with one of these."""
    return _compile_pattern(rf"\A\W*+(?:{'|'.join(patterns)})")


def holds(patterns: Iterable[str], wide: Iterable[str] = ()) -> re.Pattern[str]:
    """Finds one of these in a text, as whole words; `wide` ones anywhere."""
    words = "|".join(patterns)
    return _compile_pattern("|".join((rf"(?<!\w)(?:{words})(?!\w)", *wide)))


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return lazy_pattern(pattern.replace("'", "['’]"), re.IGNORECASE | re.DOTALL)


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Return the start and end of each sentence; together they are the whole text."""
    start = 0
    for separator in _SENTENCE_END.finditer(text):
        yield start, separator.end()
        start = separator.end()
    yield start, len(text)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the space and the quotation marks behind them."""
    found: list[str] = []
    start = 0
    for separator in _SENTENCE_END.finditer(text):
        end = separator.start()
        found.append(text[start : end if text[end] == "\n" else end + 1])
        start = separator.end()
    return [*found, text[start:]]
