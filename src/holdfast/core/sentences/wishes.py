"""Patterns of clauses in which somebody wishes, asks, decides or corrects, in lower case."""

from __future__ import annotations

from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern

_ADVERBS: Final = (
    r"(?:(?:really|much|also|usually|generally|strongly|always|only|just|still|personally|rather"
    r"|kindly|definitely|actually|absolutely|do|now|all|simply) ){0,4}"
)
WISH: Final = lazy_pattern(
    rf"(?:i|we)(?:'d| would)? {_ADVERBS}(?:prefer|insist|rather|hate|dislike|despise|favou?r)\b"
    r"(?! (?:to say|when that|it when)\b)"
    rf"|(?:i|we) {_ADVERBS}(?:want|expect|need) (?!(?:to|a (?:minute|moment|break|coffee|hand"
    rf"|second"
    r"|while)|it back|more (?:time|coffee)|another|help|your help)\b)\w"
    rf"|(?:i|we)(?:'d| would) (?:{_ADVERBS})(?:like|love|want|appreciate|need)(?: it if)? "
    r"(?!(?:to|your (?:help|opinion))\b)\w"
    rf"|(?:i|we) {_ADVERBS}(?:like|love|enjoy) (?!(?:it|that|this|how|the way|what|your|the|these"
    r"|those|when|to (?:see|think|know))\b)\w{1,40} \w"
    r"|(?:i|we) (?:want|need) (?:you|it|this|that|them|everything|all|every \w{1,40}) (?:to\b|in\b"
    r"|by\b)"
    r"|(?:i|we)(?: am|'m| are|'re) (?:preferring|needing|wanting|not going to|only|against"
    r"|not a (?:big "
    r"|huge )?fan)\b"
    r"|(?:i|we) (?:don't|do not|won't|will not|will never|never) {0,1}(?:like|want|eat|drink|use"
    r"|accept"
    r"|allow|support|do|sell|ship|deploy|trust|store|fly|work|buy|pay|cook|drive|smoke|merge"
    r"|release"
    r"|commit|send|take|keep|answer|call|travel|wear)\b(?! (?:it|that|this) (?:again|either)\b)"
    r"|my (?:strong |personal )?(?:preference|wish|request|rule|condition|requirement|priority)\b"
    r"|(?:i|we)(?:'d| would) be (?:grateful|happy|glad|thankful|pleased) if\b"
    r"|it(?:'d| would) be (?:\w{1,40} )?(?:lovely|nice|great|good|better|helpful|ideal|best|cool"
    r"|perfect) (?:if|to)\b"
    r"|(?:may|can|could) i ask (?:you|that)\b|(?:i|we) (?:kindly |must |would )?ask (?:you|that)\b"
    r"|(?:it'?s|it is|is) (?:very |really |absolutely |most |so )?(?:important|essential|necessary"
    r"|crucial"
    r"|vital|critical|mandatory|imperative|key|paramount)(?: (?:to|for) (?:me|us))?,? (?:that|to)\b"
    r"|my (?:\w{1,40} )?(?:boss|manager|client|customer|doctor|wife|husband|team|lawyer|company"
    r"|teacher"
    r"|landlord|partner) (?:wants?|told me to|asked me to|insists?|expects?|said i)\b"
    r"|i(?:'m| am) allergic to\b|prefer(?:ably|red)?\b|(?:i|we) care (?:about|that)\b"
)
ASK: Final = lazy_pattern(
    rf"(?:i|we)(?:'d| would)? {_ADVERBS}(?:like|love|want|need|prefer) to "
    r"(?!(?:know|see|understand|ask|thank|say|hear|talk|think|go|run|leave|be|check|look"
    r"|have a look|sleep|find out)\b)\w{1,40} \w"
    r"|(?:let's|lets|let us) (?:also |just |please |first )?(?!(?:see|have|look|try|talk|get"
    r"|proceed|start|continue|discuss"
    r"|begin|find|check|think|wait|run|call it)\b)\w{1,40} \w"
)
"""A request for the work at hand."""
DEMAND: Final = lazy_pattern(
    r"(?!he\b|she\b|it\b|they\b|who\b|i\b|some\b|most\b|people\b|nobody\b|which\b|a\b)"
    r"(?:[\w`./'-]{1,40} ){1,7}?"
    r"(?:wants?|insists? (?:on|that)|requires?|forbids?|prohibits?|demands?|disallows?|mandates?"
    r"|expects?)\b(?! to (?:know|see|be)\b)"
)
DECISION: Final = lazy_pattern(
    r"(?:we|i)(?:'ve| have)? (?:just |finally |all |both |also )?(?:decided|agreed|chosen?|settled"
    r"|opted|committed"
    r"|promised|picked|resolved)\b(?! to (?:look|check|see|read|meet))"
    r"|decided (?:to|against|on|that)|decision\b|(?:let's|let us|lets) (?:go with|use|stick|keep"
    r"|not|stay|avoid"
    r"|agree|leave|call|drop|switch|do|settle|make|move|take|never|always|only|write|postpone|skip"
    r"|hold)\b"
    r"(?! (?:it|this|that)\b\W{0,4}\Z)"
    r"|we(?:'ll| will) (?:go with|use|keep|stick|stay|never|always|only|not)\b|we(?:'re"
    r"| are) (?:going with|sticking"
    r"|staying|keeping|dropping|moving to|not going to)\b"
    r"|(?:can|could) we agree\b|i (?:meant|mean)\b(?! it)|you misunderstood\b|i said\b"
)
CONTRAST: Final = lazy_pattern(
    r".{0,300}\S, (?:and )?not (?!(?:sure|bad|only|yet|that|even|because|really|a bit|too|at all"
    r"|so)\b)[\w`./'-]{1,40}(?: [\w`./'-]{1,40}){0,3}\W{0,4}\Z"
    r"|not (?:the )?[\w`./'-]{1,40}(?: \w{1,40})?, (?:but )?(?:the )?[\w`./'-]{1,40}(?:"
    r" \w{1,40})?\W{0,4}\Z"
    r"|.{0,300}\b(?:instead of|rather than|in place of)\b|.{0,300}, write \w"
    r"|.{0,300}\binstead\W{0,4}\Z"
)
POLITE: Final = lazy_pattern(
    r"(?:(?:can|could|would|will|may) (?:you|we|i) (?:(?:please|kindly|maybe|also|just|perhaps"
    r"|possibly|always|never|only) ){0,4}"
    r"(not \w|agree|ask|make sure|mind \w{1,40}ing|refrain|avoid|(?:\w{1,40})))\b"
)
POLITE_VERBS: Final = frozenset(
    (
        *("keep", "use", "avoid", "leave", "stick", "stay", "refrain", "treat", "prefer", "limit"),
        *("write", "spell", "format", "name", "call", "put", "agree", "ask", "ensure", "respect"),
        *("skip", "stop", "answer", "reply", "address", "log", "store", "send", "include", "omit"),
    )
)
