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

_RULES_ENGLISH: Final = (
    r"always|never|from now on|going forward|only ever|under no circumstances|no matter what",
    r"remember|keep in mind|don't forget|dont forget|note that|make sure",
    r"do not|don't|must(?: not|n't)?|avoid|as a rule|the rule is|by default|important:",
    r"(?:i|we)(?:'d)? (?:prefer|like|want|hate|dislike)|prefer(?:ably|s)?",
    r"(?:my|our) (?:name|team|time ?zone|convention|policy|style|language|e-?mail|address)",
    r"call me|(?:i|we) (?:always|never|use|work|live|am allergic)",
    r"has to|(?:you|it|they|everything|everyone) (?:have|needs?) to|instead of|rather than",
    r"(?:you|we|it|they) (?:can't|cannot|can not|may not)|not allowed|forbidden|off[- ]limits",
    r"(?:only \S+|nobody (?:but|except) \S+|no ?one (?:but|except) \S+) (?:may|can|must|should)",
    r"no (?:more|less|fewer) than|at (?:most|least) \w+|no longer|whatever you do",
    r"it(?:'s| is) (?:very )?important|hands off|(?:stay|keep) away from|leave \S+ (?:alone|as)",
    r"(?:every|each|all) (?:\w+ ){1,3}(?:needs?|goe?s?|must|should|has|have|belongs?|gets?)",
    r"before (?:you|we) (?:change|commit|push|merge|deploy|delete|release|touch|edit)",
    r"for (?:the record|(?:future|later) reference)",
)
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
"""The same in languages with other words for it."""

RULES: Final = (*_RULES_ENGLISH, *RULES_ELSEWHERE)
"""Words with which somebody lays something down."""

RULES_WIDE: Final = (
    r"记住|記住|总是|總是|始终|始終|永远|永遠|从不|從不|绝不|絕不|不要|不许|必须|必須|务必|偏好|以后都|今后",
    r"必ず|絶対に|いつも|常に|決して|覚えて|忘れないで|してはいけ|しないで|これからは",
    r"항상|절대|기억해|하지 ?마|반드시|앞으로",
    r"دائما|أبدا|تذكر",
)

DECISIONS: Final = (
    r"(?:we|i)(?:'ve| have)? (?:decided|agreed|chose|settled|opted)",
    r"decided (?:to|against|on|that)|decision:",
    r"let's (?:go with|use|stick (?:with|to)|keep)",
    r"we(?:'ll| will) (?:go with|use|keep|stick)",
    r"(?:wir|ich) (?:haben?(?: uns)? entschieden|nehmen|bleiben bei)|entscheidung:",
    r"(?:hemos )?decidido|decidimos|(?:on a|nous avons) décidé|abbiamo deciso",
    r"решили|решено",
)
DECISIONS_WIDE: Final = (r"决定|決定|결정",)

FACTS: Final = (
    # English
    r"(?:the|our|my|your|its) (?:\w+ ){0,2}?(?:ticket|issue|deadline|due date|release date|budget|"
    r"owner|contact|customer|client|branch|server|host|port|region|account|code ?name|version|"
    r"reviewer|manager|colleague|phone number|id) (?:(?:of|for|in|on|at) (?:[\w.-]{1,80} ){1,4}?)?"
    r"(?:is|are|will be|was)",
    r"deadline|due (?:on|by)|no later than|not before|sign(?:s|ed)? (?:\w+ ){0,3}off",
    r"(?:is|are) (?:called|named)|belongs? to|(?:i|we) (?:call|named) (?:it|this|that|them)",
    # German
    r"(?:die|der|das|unser\w*|mein\w*) (?:ticket|frist|termin|kunde|zweig|server|port) ist",
    r"heißt|spätestens|nicht vor dem|gehört zu",
    # Spanish, Portuguese, Italian, French
    r"se llama|la fecha límite|a más tardar|chama-se|o prazo é|si chiama|la scadenza",
    r"s'appelle|la date limite|au plus tard|l'échéance",
    # Russian
    r"называется|зовут|срок|не позднее",
)
"""Words with which somebody states what things are called, whose they are and when they are due."""

FACTS_WIDE: Final = (r"叫做|名为|名為|截止|期限|締め切り|という名前|마감|이름은",)

REQUESTS: Final = (
    r"(?:(?:please|also|and|then|now|so|ok|okay|but|first|next|finally)\b[,:]?\s+){0,3}"
    r"(?:use|keep|leave|stick|stay|put|add|write|rename|remove|replace|set|make|name|call|move|run"
    r"|ask|stop|start|document|limit|treat|send|log|store|return|create|build|delete|drop|fix|test"
    r"|raise|lower|increase|reduce|change|convert|migrate|split|merge|port|support|implement|wrap"
    r"|wait|retry|show|print|format|sort|switch|forget|ignore|assume|quote|cite|answer|reply)\b",
)
"""Openings of a request."""

STATES: Final = (
    r"is|are|was|were|will be|has|have|had|runs?|lives?|needs?|goe?s?|belongs?|uses?|comes?|stays?"
    r"|means?|contains?|depends?|requires?|expects?|owns?|handles?|holds?|listens?|points?|expires?",
)
"""Verbs with which somebody says what something is like."""

NOTHINGS: Final = frozenset(
    (
        *("a", "again", "all", "alright", "and", "back", "bye", "clear", "cool", "done", "enough"),
        *("evening", "excellent", "fine", "go", "good", "got", "great", "hello", "hey", "hi", "i"),
        *("is", "it", "just", "lot", "made", "me", "morning", "much", "nice", "night", "no", "now"),
        *("off", "oh", "ok", "okay", "on", "perfect", "please", "right", "see", "so", "sorry"),
        *("sounds", "sure", "thank", "thanks", "that", "the", "there", "this", "to", "too", "up"),
        *("understood", "very", "well", "with", "wonderful", "work", "works", "yeah", "yes", "you"),
        *("danke", "gut", "guten", "hallo", "ja", "klar", "morgen", "nein", "schön", "sehr", "tag"),
        *("bien", "buenos", "claro", "días", "gracias", "hola", "muchas", "muy", "sí", "vale"),
        *("beaucoup", "bonjour", "d", "accord", "merci", "non", "oui", "très", "bom", "dia"),
        *("obrigada", "obrigado", "olá", "sim", "ciao", "grazie", "bene", "да", "нет", "спасибо"),
        *("хорошо", "привет", "понятно", "好", "好的", "谢谢", "謝謝", "你好", "明白了", "はい"),
        *("ありがとう", "ありがとうございます", "了解", "네", "감사합니다", "안녕하세요"),
    )
)
"""A sentence of nothing but these is a courtesy."""

_NAME: Final = r"""
    `[^`\n]+` | (?<!\w)_{0,8}[^\W_]{1,200}+[/_@]\w+ | \w\.[a-zA-Z]\w
    | (?<![a-z])[a-z]{1,200}+[A-Z]\w+ | \b[A-Z]{2,10}-\d+
"""
NAME: Final = lazy_pattern(_NAME, re.VERBOSE)
"""A path, an identifier, an address or a ticket."""
TELLING: Final = lazy_pattern(
    rf"""
    \d[\d.,:]* | {_NAME}
    | \b[A-Z]{{2,}}\b
    | (?<=[\w,;:]\s)[A-Z][\w-]+                      # a name, not the first word
    """,
    re.VERBOSE,
)
"""Names and numbers in a sentence."""

_SENTENCE_END: Final = lazy_pattern(
    r"[.!?。！？\n](?<!\b[MD]r\.)(?<!\bM[rs]s\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\b[ei]\.[ge]\.)(?<!\bvs\.)"
    r"(?:(?<!\n)[\"'”’)]*\s+|(?<=[。！？])|(?<=\n)\n*)"
)
"""The last character of a sentence and the space behind it, or line ends. It begins with a set of
characters, which is looked for several times as fast as places behind one."""
_WORD: Final = lazy_pattern(r"[^\W_]+")


def says_nothing(sentence: str) -> bool:
    """Return whether it is a courtesy and no more: `Good.`, `Clear enough, thank you.`"""
    return all(word[0] in NOTHINGS for word in _WORD.finditer(sentence.casefold()))


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
