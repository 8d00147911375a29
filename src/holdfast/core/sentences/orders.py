"""Patterns of clauses that order, forbid or rule something, for texts in lower case."""

from __future__ import annotations

from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern

BAN: Final = lazy_pattern(
    r"(?:(?:do not|don't|dont|never|never ever|not ever)(?: ever| again| even)? "
    r"(?!(?:mind|worry|know|think|get me|understand|see|have|remember|had|was|were|been|knew|saw"
    r"|would|could|did|heard|got|disturb|bother|in|on|of|a|the|know|reached|finishes|returns?)\b)"
    r"(?!\w{1,40}ed\b)\w)"
    r"|(?:do )?always (?!(?:the|a|an|been|was|were|had|got|gets|so|there|on)\b)(?!\w{1,40}ed\b)\w"
    r"|(?:under no circumstances|by no means|in no case|at no (?:point|time))\b"
    r"|(?:hands off|keep (?:away|out|clear|off)|stay (?:away|out|clear|off)|steer clear|refrain"
    r"|avoid|stop \w{1,40}ing|whatever (?:you do|happens))\b"
    r"|leave .{1,60}\b(?:alone|as (?:is|it is|they are)|out|untouched|be|unchanged)\b"
    r"|let [\w`./-]{1,40} be\b|hold off\b"
    r"|please to not \w|(?:is|it's|it is) (?:strictly |absolutely )?(?:forbidden|prohibited|not "
    r"allowed|not permitted|not acceptable|unacceptable|out of the question)\b"
)
NO: Final = lazy_pattern(
    r"no (?!(?:problem|worries|worry|idea|rush|hurry|thanks?|way|need|luck|doubt|wonder|such"
    r"|longer|matter|one|errors?|warnings?|output|results?|changes?|difference|answer|reply"
    r"|response|connection|progress|news|clue|kidding|big|it|i|he|she|you|that|this|there|the"
    r"|we|they|is|was|chance|trace|sign|surprise|reason|offen[cs]e|harm|joke|fair|shit)\b)"
    r"(?:[\w`./'-]{1,40} ){0,7}[\w`./'*-]{1,40}\W{0,4}\Z"
)
NOTHING: Final = lazy_pattern(
    r"(?:nothing|nobody|no ?one|none of (?:the|our|my|these"
    r"|those) \w{1,40})(?: [\w`./-]{1,40}){0,4}? "
    r"(?:is|gets|goes|may|can|must|should|lands|leaves|with|else|longer|but|before|without|except"
    r"|outside|has to|needs|works|answers|touches|deploys|merges)\b"
    r"|nothing (?:with|else|but|longer|before|after|on|in|without)\b"
)
LIMIT: Final = lazy_pattern(
    r"\b(?:only|always|never|every|each|until|unless|before|everywhere|by default|instead|at most"
    r"|at least|below|above|within|max(?:imum)?|minimum|whenever|without|except|throughout"
    r"|from now on|as (?:is|it is|they are)|by hand|for (?:every|all|each|new)|rather than"
    r"|no more)\b"
)
STEER_LIMIT: Final = lazy_pattern(
    r"\b(?:only|always|never|(?:every|each) time|(?:after|on|for|with) (?:each|every)|until|unless"
    r"|by default|instead|at most"
    r"|at least"
    r"|below|whenever|without|from now on|by hand|everywhere|except|not more than|before (?:you"
    r"|each|every)|sure|a habit|it a rule|(?:use|copies|backups) of)\b"
)
AFTER_NOUN: Final = frozenset(
    (
        *("is", "are", "was", "were", "has", "had", "have", "failed", "fails", "fail", "passed"),
        *("passes", "shows", "says", "went", "ran", "looks", "seems", "works", "does", "did"),
        *("can", "could", "will", "would", "may", "of", "worked", "crashed", "finished", "stuck"),
        *("started", "stopped", "returned", "returns", "took", "takes", "must", "should", "them"),
        *("rises", "than", "him", "an", "were", "me"),
    )
)
"""A word before one of these is a noun, or no order."""
NOUN_VERB: Final = lazy_pattern(r"(?:is|are|was|were|has|had|fails|failed|passed|looks|seems)\b")
DO_WORK: Final = lazy_pattern(
    r"do (?!(?:it|that|this|so|you|i|we|they|not|the|what)\b)\w{1,40} \w{1,40} \w"
)
AFTER_STEERING: Final = lazy_pattern(
    r"(?:make sure|be sure|take care|do always|have (?:all|every)|make (?:it a rule|a habit|every"
    r"|all|that \w{1,40}day)|be so kind|work in|wait (?:for my|until|for the)|let me (?:approve|see"
    r"|review|check|"
    r"decide|know (?:before|whenever|if|first)))\b"
)
_MODAL: Final = (
    r"(?:must|mustn't|must not|should|shouldn't|shall|has to|have to|needs? to|may not|may only"
    r"|can't|cannot|can not|can only|ought to|are to be|is to be|is not to|are not to|has got to"
    r"|better not|had better|(?:is|are) (?:not )?(?:allowed|permitted|supposed|required) to"
    r"|(?<!i )(?<!you )(?<!we )(?<!they )can (?:go|stay)\b|can only)"
)
_SUBJECT: Final = (
    r"(?:you|we|everyone|everybody|everything|everyone else|nobody(?: (?:but"
    r"|except) [\w .]{1,60}?)?"
    r"|no ?one(?: (?:but|except) [\w .]{1,60}?)?|nothing(?: [\w .]{1,60}?)?"
    r"|anything(?: [\w .]{1,60}?)?"
    r"|all(?: [\w`./'-]{1,40}){1,6}?|every(?: [\w`./'-]{1,40}){1,5}?|each(?: [\w`./'-]{1,40}){1,5}?"
    r"|any(?: [\w`./'-]{1,40}){1,6}?|only(?: [\w`./'-]{1,40}){1,5}?|(?:the|our|my|your|these|those"
    r"|this"
    r"|that)(?: [\w`./'-]{1,40}){1,6}?|it|this|they|[\w`./'-]{1,40}(?: [\w`./'-]{1,40}){0,3}?)"
)
RULED: Final = lazy_pattern(
    rf"(?:after|before|on|during|in|for|from|at|if|when|where"
    rf"|with)? ?(?:[\w'-]{{1,40}} )?{_SUBJECT} "
    rf"(?:also |always |never |only |really |just )?{_MODAL}(?= \w)"
)
LICENCE: Final = lazy_pattern(
    r"(?:\w{1,40} \w{1,40} )?(?:only|nobody|no ?one|nothing"
    r"|none)(?: [\w`./'-]{1,40}){0,6}? may (?!(?:be"
    r"|have) \w{1,40}ing)\w"
)
"""Something that is allowed to somebody alone."""
NOT_RULED: Final = lazy_pattern(
    r"(?:and |but |so |then )?(?:i|i'm|i'll|i've|he|she|one|somebody|someone|people|children)\b"
    r"|(?:it|this|that|they|there|he|she|you|we|i) (?:can't|cannot|can not|may)\b"
    r"|(?:it|this|that) (?:must|should|has to|shall|needs to) (?:do it|be (?:fine|ok|okay|good"
    r"|enough|working"
    r"|easy|possible|done|there|here|a|the|because|some)|work|help|have|mean|suffice|take|look)\b"
    r"|you don't (?:have|need) to (?:apologi|worry|explain|thank|hurry|rush|do (?:it|that)|answer"
    r"|be sorry)"
    r"|you (?:must be|should (?:see|have|know|try)|have to (?:see|admit|apologi)|can(?:not"
    r"|'t) imagine"
    r"|may (?:want|have|be|also|notice|ask|wonder))"
    r"|we (?:should be (?:able|good|fine|ok|okay|done|all set|there)|may (?:have|be|want|need)"
    r"|should (?:see|talk|know)|have to (?:see|talk)"
    r"|need to (?:talk|see|find|look|figure|understand))"
    r"|(?:the|in)(?: \w{1,40}){1,4} (?:must have|should be (?:fine|ok|there|enough|working)"
    r"|may (?:have"
    r"|be)"
    r"|should have been|can't (?:find|be (?:found|opened|reached)))"
    r"|(?!all|every|each|our|you)\w{1,40}s (?:need|have) to\b|(?:if|why|whether) i\b|that (?:must"
    r"|should)\b"
)
I_CANNOT: Final = lazy_pattern(
    r"i must insist\b|(?:i|we) (?:really |simply |just )?(?:can't|cannot) (?:have|stand|accept"
    r"|afford|eat|drink"
    r"|allow|tolerate|risk|use|take|pay|ship|support)\b"
)
YOU_MAY: Final = lazy_pattern(
    r"(?:you|we|it|they) (?:can't|cannot|can not|may not|may only|can only)"
    r" (?!(?:imagine|see|find|be\b|have|want|notice|ask|wonder|also|tell|remember|connect))\w"
)
LASTING: Final = lazy_pattern(
    r"\b(?:from now on|from here on|going forward|from today on|henceforth|hereafter"
    r"|in (?:the )?future"
    r",? (?:please|always|never|do|don't|use|we|you)|as a rule|the rule is|no matter what"
    r"|at all times"
    r"|without exception|until further notice|(?:every|each) time (?:you|we|i|there)"
    r"|whenever (?:you|we|i|there|possible|something|a|the)\b(?! (?:\w{1,40} )?rain)|when in doubt"
    r"|as of (?:today|now|\w{1,40}day|tomorrow|next|january|february|march|april|may|june|july"
    r"|august"
    r"|september|october|november|december|version|\d)|keep (?:that|this|it|in) (?:in )?mind"
    r"|bear in mind|don't forget|do not forget|for (?:future|later) reference|for the record"
    r"|as long as|unless (?:i|you|we|the|it|there)|only (?:if|when|after|with|once)|until (?:i|we"
    r"|you"
    r"|the|further|\w{1,40}day|january|february|march|april|may|june|july|august|september|october"
    r"|november|december|next|\d)|by default|before (?:each|every|you|any)|after (?:each|every)"
    r"|for (?:all|every|each|any) (?:new |future )?\w{1,40}|without (?:my|asking|permission"
    r"|approval|a)"
    r"|no longer (?:applies|valid|support|use|hold|need|want|work|allowed|wanted)|out of scope"
    r"|(?:in case of|if in|in) doubt|(?:on|with|in) (?:every|each) \w{1,40}|(?:is"
    r"|are) (?:an? )?(?:\w{1,40} )?"
    r"(?:requirement|must|obligation|prerequisite|no-no)|off[- ]limits|read[- ]only|non-negotiable"
    r"|not negotiable|deal ?breaker|no-go|taboo|freeze on"
    r"|(?:are|is|stays?) frozen|stays? (?:in|on|as|the same|below|under|valid|private|free|at|with)"
    r"|remains? (?:in|on|as|the same|valid|private|free)|must-have|mandatory|compulsory|obligatory"
    r"|(?:is|are) (?:strictly |absolutely )?(?:forbidden|prohibited|banned|not allowed"
    r"|not permitted"
    r"|disallowed|required|not welcome|not acceptable)|final say|changed my mind|scratch that"
    r"|forget"
    r" what|nothing else|that's (?:it|all we have)|sacred|set in stone|cast in stone)\b"
)
CONDITION: Final = lazy_pattern(
    r"(?:and |but |so )?(?:if|when|whenever|before|after|once|unless|until|in case|every time"
    r"|each time"
    r"|as soon as|for (?:every|each|all|any)|as of|whoever|whatever|wherever|should"
    r"|in (?:the )?event"
    r"|during|while|on (?:\w{1,40}days?|weekends))\b"
)
WHOEVER: Final = lazy_pattern(
    r"(?:whoever|wherever) (?!(?:it|that) )\w|whatever (?!(?:you|i|we) (?:think|want|like"
    r"|prefer))\w"
)
MAIN_CLAUSE: Final = lazy_pattern(
    r"(?:nothing|nobody|everything|everyone|only|all|no \w|the [\w ]{1,40} (?:can|must|should|may"
    r"|is"
    r"|are|stays?|gets?|goes)|"
    r"(?:i|we|you) (?:want|need|must|should|have to|can|expect|use|do|don't|stop|ask)\b|it (?:must"
    r"|should|has to|gets|stays|goes))"
)
UNIVERSAL: Final = lazy_pattern(
    r"(?:all|every|everything|each|any|anything|everyone"
    r"|everybody)(?: [\w`./'-]{1,40}){0,6}? (?:must"
    r"|should|has to|have to"
    r"|goe?s?|gets?|needs?|is|are|stays?|may|can|requires?|in|through|works?|belongs?|has|uses?"
    r"|remains?"
    r"|start|end|begin|starts|ends|begins|live|lives|come|comes)\b(?! (?:the same village"
    r"|to the same))"
)
NOT_UNIVERSAL: Final = lazy_pattern(
    r"all (?:of (?:it|them)|the (?:roads|same|time)|is (?:well|good|fine)|in all|good|done|looks"
    r"|green|i (?:can|know|have)|that|tests? (?:pass|are))\b|every(?:thing|one) (?:is|works|looks"
    r"|was|seems)"
    r" (?:fine|well|good|ok|okay|great|green|done|set|here|in place|\w{1,40}ing)\b|each of the\b"
    r"|everything works\b(?! only)"
)
