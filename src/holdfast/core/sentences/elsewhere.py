"""Forms of German, French and Spanish sentences, and words of rules in other languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.sentences.english import FACT, LIKELY, NONE, RULE
from holdfast.core.sentences.phrases import (
    DECISIONS_WIDE,
    FACTS_WIDE,
    RULES_ELSEWHERE,
    RULES_WIDE,
    holds,
)
from holdfast.core.sentences.vocabulary import ENGLISH, FRENCH, GERMAN, SPANISH
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection

_RULE_WORDS: Final = holds(RULES_ELSEWHERE)
_WIDE_RULE: Final = lazy_pattern("|".join((*RULES_WIDE, *DECISIONS_WIDE)))
_WIDE_FACT: Final = lazy_pattern("|".join(FACTS_WIDE))

_GERMAN_TOLD: Final = lazy_pattern(
    r"\b(?:habe|hat|hatte|haben wir|hatten|war|waren|wurde|ging|lief|läuft|danke|gestern|sieht)\b"
)
_GERMAN_RULE: Final = lazy_pattern(
    r"\b(?:immer|nie|niemals|ab (?:jetzt|sofort)|auf keinen fall|grundsätzlich|darfst|dürfen|darf"
    r"|sollst"
    r"|sollen|sollte|sollten|soll|muss|musst|müssen|bevorzuge\w*|möchten?|lieber|statt"
    r"|wichtig, dass|nicht mehr"
    r"|verboten|nur noch|entschieden|bleiben bei|merke? dir|denke? daran|vergiss nicht|will|wollen"
    r"|solange|außer"
    r"|ausschließlich|höchstens|mindestens)\b"
    r"|\A(?:bitte|kein\w*|nichts|lass\w*|verwende|benutze?|nutze?|schreibe?|antworte|halte?|nimm"
    r"|achte|ändere|lösche"
    r"|stelle?|setze?|vermeide?|frage?|nenne?|behalte?|gib|mach)\b(?! (?:beaucoup))"
)
_GERMAN_FACT: Final = lazy_pattern(
    r"\b(?:heißt|heiße|spätestens|nicht vor dem|gehört|zuständig|bis (?:montag|dienstag|mittwoch"
    r"|donnerstag"
    r"|freitag|samstag|sonntag|ende|zum))\b|\A(?:unser\w*|mein\w*)\b.{0,300} (?:ist|sind|heißt"
    r"|liegt)\b"
    r"|\Awir (?:verwenden|nutzen|benutzen|arbeiten|liefern|haben)\b|\Aich (?:bin|arbeite|wohne"
    r"|heiße)\b"
    r"|\b(?:frist|termin|ticket|budget|kunde|zweig|server|port)\b.{0,300} ist\b"
)
_FRENCH_TOLD: Final = lazy_pattern(
    r"\b(?:j'ai|il a|elle a|on a|nous avons|était|étaient|hier|je ne (?:sais|vois|comprends)"
    r"|merci beaucoup"
    r"|c'est parfait)\b"
)
_FRENCH_RULE: Final = lazy_pattern(
    r"\b(?:il (?:ne )?faut|doi(?:s|t|vent)|devez|toujours|jamais|désormais|dorénavant|interdite?s?"
    r"|obligatoires?"
    r"|je (?:préfère|veux|voudrais|souhaite)|nous (?:préférons|voulons)|surtout pas|uniquement"
    r"|sans exception"
    r"|au lieu de|plutôt que|à partir de maintenant|tant que|sauf si|au maximum|au moins|partout)\b"
    r"|\A(?:ne |n')\w{1,40}|\A(?:veuillez|merci de|utilisez?|gardez?|évitez?|écri(?:s|vez)|laissez?"
    r"|mets|mettez"
    r"|répond(?:s|ez)|pense|pensez|n'oublie\w*|respectez?|ajoutez?|supprimez?|demandez?|pas de)\b"
)
_FRENCH_FACT: Final = lazy_pattern(
    r"\A(?:notre|nos|mon|ma|mes)\b.{0,300} (?:est|sont|s'appellent?)\b|s'appelle|date limite"
    r"|l'échéance"
    r"|au plus tard"
    r"|\A(?:nous utilisons|on utilise|je suis|j'habite|je travaille)\b|\bavant (?:le|lundi|mardi"
    r"|mercredi|jeudi"
    r"|vendredi)\b"
)
_SPANISH_TOLD: Final = lazy_pattern(
    r"\b(?:ayer|ha|he|había|fue|fueron|estaba|llegó|no (?:sé|puedo|tengo|entiendo|veo)|gracias"
    r"|pasado"
    r"|funcionó)\b"
)
_SPANISH_RULE: Final = lazy_pattern(
    r"\b(?:siempre|nunca|jamás|hay que|deben?|debes|prefiero|preferimos|quiero que"
    r"|a partir de ahora|prohibid[oa]s?"
    r"|obligatori[oa]s?|en (?:lugar|vez) de|por favor|sin preguntar\w*|(?:solo|sólo|solamente"
    r"|únicamente) \w{1,40}"
    r"|mientras|a menos que|como máximo|al menos|recuerda|no olvides)\b"
    r"|\Ano \w{1,40}(?:es|as|e|a|en|an)\b|\A(?:usa|usen|usad|deja|mantén|evita|escribe|pon|guarda"
    r"|responde|contesta)\b"
)
_SPANISH_FACT: Final = lazy_pattern(
    r"\A(?:nuestr[oa]s?|mi|mis)\b.{0,300} (?:es|son|se llaman?)\b|se llama|fecha límite"
    r"|a más tardar"
    r"|\Ausamos\b"
    r"|\b(?:antes del|para el) (?:lunes|martes|miércoles|jueves|viernes|sábado|domingo|\d)"
)
_FORMS: Final = (
    (GERMAN, _GERMAN_TOLD, _GERMAN_RULE, _GERMAN_FACT),
    (FRENCH, _FRENCH_TOLD, _FRENCH_RULE, _FRENCH_FACT),
    (SPANISH, _SPANISH_TOLD, _SPANISH_RULE, _SPANISH_FACT),
)


def is_english(words: Collection[str]) -> bool:
    """Return whether a sentence of these words is most likely English."""
    english = len(ENGLISH.intersection(words))
    return all(len(other.intersection(words)) <= english for other, *_ in _FORMS)


def read_elsewhere(text: str, words: Collection[str]) -> int:
    """The strength of the form of a sentence in another language; `text` is in lower case."""
    known, told, rule, fact = max(_FORMS, key=lambda forms: len(forms[0].intersection(words)))
    if not known.isdisjoint(words):
        if told.search(text):
            return NONE
        if rule.search(text):
            return RULE
        return FACT if fact.search(text) else NONE
    return LIKELY if _RULE_WORDS.search(text) else NONE


def read_wide(text: str) -> int:
    """The strength of a sentence in a script that puts no spaces between words."""
    if _WIDE_RULE.search(text):
        return RULE
    return FACT if _WIDE_FACT.search(text) else NONE
