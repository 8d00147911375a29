"""Patterns of clauses that state a fact or a limit, for texts in lower case."""

from __future__ import annotations

from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern

_THING: Final = (
    r"(?:ticket|issue|deadline|due date|release date|launch|budget|limit|owner|contact|customer"
    r"|client|branch"
    r"|server|host|port|region|account|code ?name|version|reviewer|manager|colleague|phone number"
    r"|id|target"
    r"|priority|goal|default|language|time ?zone|format|policy|contract|name|address|password"
    r"|folder|repo"
    r"|repository|database|staging|prod|production|audience|stack|release|domain|bucket|box"
    r"|supplier|landlord"
    r"|accountant|lawyer|project|product|e-?mail|convention|rule|style|timeout|quota|licen[cs]e"
    r"|framework|office"
    r"|number|user ?name|handle|demo|exam|appointment|scope|spelling|currency|guy|person|woman|man"
    r"|environment)"
)
_STATES: Final = (
    r"(?:is|are|will be|lives?|runs?|sits?|stands?|starts?|begins?|ends?|closes?|opens?|applies"
    r"|apply|belongs?|expires?"
    r"|stays?|goes by|has|uses?|works?|means|reads?|gets?|holds?|points?|listens?|replaces?|owns?"
    r"|handles?|needs?|"
    r"(?:is|are) (?:called|named|set|due|owned))"
)
OWN: Final = lazy_pattern(
    r"(?:my|our|(?!(?:it|that|there|he|she|what|let|here|who|how|where|this|one)')\w{2,40}'s)"
    r"(?: [\w'&/.-]{1,40}){1,6}?(?:, [\w &.-]{1,40},)? " + _STATES + r"\b"
    r"(?! (?:\w{1,40}ing\b(?! (?:at|on|until|by))|so |very |really |too |slow|broken|late|acting"
    r"|getting|not working|back\b"
    r"|down\b|fine|great|good\b|bad\b|gone|empty|green|red\b|again|cold|happy|wrong|right\b|ok\b"
    r"|okay|done|ready|a bit"
    r"|a mess|stuck|full\b|dead|here\b|there\b|that\b|to\b))"
)
NOT_OWN: Final = lazy_pattern(
    r"my (?:bad|mistake|fault|guess|question|point|apologies|problem|worry|feeling|impression"
    r"|theory|hope"
    r"|understanding|bet|gut|head|fear|plan for today)\b"
)
DISAGREES: Final = lazy_pattern(r"(?<!and )(?<!s )\b" + _THING + r" (?:are|were|have)\b")
"""A thing in the singular in front of a verb in the plural."""
STATED: Final = lazy_pattern(
    r"(?!the following)(?:the |this |that |its |your |a )?(?:[\w'&/.-]{1,40} ){0,4}?"
    + _THING
    + r"(?:s|'s)?"
    r"(?: (?:of|for|in|on|at|behind|with|who|that|we|i|about|number|one"
    r"|you)(?: [\w'&/.-]{1,40}){1,6}?"
    r"| one| we have)? "
    r"(?:(?:still |now |currently |also )?(?:is|are|will be|applies|starts|stays|lives|expires"
    r"|ends|stands|goes"
    r"|belongs|gets \w{1,40}ed|runs|closes|opens|has moved|allows|forbids|requires|lies)\b|= )"
    r"(?! (?:\w{1,40}ing\b|empty|broken|stuck|slow|down\b|still\b|back\b|fine|gone|full\b"
    r"|not (?:working|responding|there|found)|ok\b|okay|again"
    r"|green|red\b|late\b|happy|so |very |too |really |faster|slower|already|as |like |just |up\b"
    r"|wrong))"
)
LABEL: Final = lazy_pattern(
    r"(?!(?:update|question|result|status|summary|answer|example|output|input|quick|error|info"
    r"|warning|ps|edit|problem"
    r"|source|see|cc|re|fw|todo|done|thought|idea|remote|fatal|compiling|traceback|http|https"
    r"|usage|from|date|subject|hint|fail|pass|arguments|\w{1,40}ed)\b)"
    r"[a-z][a-z-]{0,40}(?: [a-z-]{1,40}){0,3}: (?!\\|/|\{)[\w`'\"][^:;{}=]{1,90}\Z"
)
I_AM: Final = lazy_pattern(
    r"i(?:'m| am) (?:(?:still|only|currently|also|just|now|really) ){0,4}(?:an? (?!(?:bit|little"
    r"|fan)\b)\w{1,40}|the\b|on (?:a|an|the|holiday|call|vacation|leave|parental|windows|linux|mac)"
    r"|in (?:charge|\w{1,40})|from\b"
    r"|based|vegan|vegetarian|diabetic|lactose|colou?r-?blind|left-handed|deaf|dyslexic|gluten"
    r"|intolerant|training|learning"
    r"|using|writing|building|working (?:with|for|in|at|from|under)|available|away|away from|off"
    r"|responsible|new to|not (?:available|a|allowed)|married|studying|moving)\b"
    r"(?! (?:impressed|sorry|sure|the middle of|my way|it\b|a hurry))"
)
HABIT: Final = lazy_pattern(
    r"(?:i|we)(?:'ve got)? (?:(?:always|never|usually|normally|only|no longer|still|all|mostly"
    r"|typically|also|currently|do) ){0,4}"
    r"(?:use|ship|deploy|bill|support|work (?:from|in|at|for|as|with|on (?:\w{1,40}days?|linux"
    r"|windows"
    r"|mac))|live (?:in|at|near|with)|host|store|speak|eat|drink|drive|fly"
    r"|go by|pay|charge|sell|release|review|meet|run (?:on|our|all)|develop|build (?:on|with|for)"
    r"|target|measure|sleep|travel|commute|code (?:in|with)|follow|keep|write (?:our|all|in|every"
    r"|the)|stay|own|rent|publish|log|track|tag|sign|follow|rely|depend|standardi[sz]e)\b"
    r"(?! (?:it|this|that|to|them|you) ?\b)"
    r"|(?:i|we)(?: have|'ve got|'ve only got| only have| do have) (?:only |just |about |around "
    r"|exactly |at most |no )?(?:an? (?!(?:question|look|feeling|problem|idea|minute|meeting|hunch"
    r"|bug|few)\b)|two|three|four|five|six|\d|no (?!(?:idea|clue|doubt|problem|time))|one|our own)"
    r"|(?:i|we) (?:no longer|only|never) (?!(?:had|was|were|been|knew|saw|heard|would|could|did"
    r"|got|get|know|see|think|thought|noticed|want to)\b)(?!\w{1,40}ed\b)\w"
)
PLACED: Final = lazy_pattern(
    r"(?!(?:people|who|he|she|it|they|i|you|we|most|some|time|that|this|let)\b)(?:(?!(?:you|when"
    r"|if|i)\b)[\w`./'-]{1,40} ){1,6}?(?:goe?s? (?:in|into|through|to|under|on|via|by)"
    r"|lives? (?:in|on"
    r"|at|next|under|beside|behind)|belongs? (?:in|to|on|under)|sits? (?:in|on|under|behind|next)"
    r"|(?:is|are) (?:owned|run|maintained|handled|hosted|hashed|stored|written|kept|named|called"
    r"|signed|encrypted|built|generated|managed|reviewed|cut|set|scheduled|planned|due|spelled"
    r"|pronounced|located|deployed|capped|limited|billed|shared|licensed|paid|based|versioned"
    r"|released|frozen|priced|measured|logged|rotated|wiped|read-only|private|public|optional"
    r"|internal|confidential|sacred|responsible for|in charge of)\b"
    r"|gets? (?:wiped|cut|released|reviewed|deployed|published|merged|signed|reset|rotated|cleaned"
    r"|billed|paid)|responsible for|in charge of|stands for|signs? (?:\w{1,40} ){0,3}off|goes by"
    r"|reports? to|comes? (?:first|before|last)|cover(?:s)? only|(?:has|have) the (?:final"
    r"|last) (?:say|word)|keeps? working)\b"
    r"(?! (?:again|now|fine|well)\b\W{0,4}\Z)"
)
NAMED: Final = lazy_pattern(
    r"(?:the )?(?=\S{0,60}[_/.@]\w)[\w`./@-]{2,60}(?: \w{1,40})? (?!(?:fails|crashes|throws|shows"
    r"|returns|looks|seems"
    r"|keeps|was|prints|says|gives|hangs|breaks|takes|contains|its|this|yes|less|across|as"
    r"|is \w{1,40}ing)\b)"
    r"(?:\w{2,40}[^s\W]s|is|are|has)\b(?! (?:been|no|failing|broken|empty|slow|missing|fine|gone"
    r"|still|now|not)\b)"
)
"""A name in front of a verb in the present."""
SPELLED: Final = lazy_pattern(
    r"(?:it|that|this|he|she|the \w{1,40})(?:'s| is) (?:spelled|written|called|named|pronounced"
    r"|spelt)\b"
)
QUANTITY: Final = lazy_pattern(
    r".{0,300}\b(?:max(?:imum)?|at most|at least|no more than|not more(?: than)?|no later than"
    r"|up to"
    r"|minimum|below|under|less than|within|above"
    r"|limited to|no less than|no fewer than|not before|due (?:on|by)|deadline"
    r"|budget)\b.{0,40}?(?:\d|monday|tuesday|wednesday|thursday|friday|saturday|sunday|end of"
    r"|midnight|noon|january|february|march|april|june|july|august|september|october|november"
    r"|december|two|three|five|ten)"
)
DUE: Final = lazy_pattern(
    r".{0,300}\b(?:by|before|until|due|not before|no later than) (?:the )?(?:close|end of|monday"
    r"|tuesday"
    r"|wednesday|thursday|friday|saturday|sunday|january|february|march|april|may|june|july|august"
    r"|september|october|november|december|\d{1,2}(?:st|nd|rd|th|:|\b)|tomorrow|noon|midnight|next"
    r"|christmas|easter)\b"
)
NEEDS: Final = lazy_pattern(
    r".{0,300}\b(?:needs?|must|should|want|wants|have|has|due|deliver|ready|done|finish|submit"
    r"|publish"
    r"|send|hand)\b"
)
FRAGMENT: Final = lazy_pattern(
    r"(?!thanks?\b|that's\b)(?:"
    r"(?:only|just) [\w`./'-]{1,40}(?: [\w`./'-]{1,40}){0,5}\W{0,4}\Z"
    r"|(?:[\w`./'&-]{1,40} ){1,6}(?:only|everywhere|throughout|mandatory|required|optional"
    r"|forbidden"
    r"|spelling|allowed|preferred|please|at minimum|per \w{1,40}|maximum|minimum|instead|by default"
    r"|as well|first|last|in (?:english|german|french|spanish|dutch|italian|polish|lower ?case"
    r"|upper ?case|capitals|utc|cents))\W{0,4}\Z"
    r"|[\w`./'-]{1,40} (?:everywhere|only|throughout|spelling|mandatory|preferred"
    r"|forbidden)\W{0,4}\Z"
    r"|one [\w-]{1,40} per [\w-]{1,40}|(?:max|min|at most|at least|under|below|no more than) \d"
    r"|[a-z][a-z-]{0,40} [a-z][a-z -]{1,24}(?<! number)(?<! page)(?<! step)(?<! part)(?<!"
    r" chapter)(?<!"
    r" line) \d[\d.,]*[a-z%]{0,40}\W{0,4}\Z|[\w`./-]{1,40} for (?:me|us|my \w{1,40}"
    r"|the [\w ]{1,40}|every \w{1,40}|all \w{1,40})\W{0,4}\Z"
    r"|[\w-]{1,40} [\w-]{1,40} for (?:me|us)\W{0,4}\Z|(?:british|american|german|metric|imperial"
    r"|dark"
    r"|light) \w{1,40}\W{0,4}\Z|(?:existing|old|public|new) [\w ]{2,20} stays? \w{1,40})"
)
FINITE: Final = lazy_pattern(
    r"\b(?:was|were|had|did|went|got|took|is|are|has|have|failed|passed|worked|looks|seems|came"
    r"|made|i'm|it's|i|you|said|been)\b"
)
