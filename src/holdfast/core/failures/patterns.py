"""How failures are worded: patterns for text that `normalise.plain` has left.

Each is a vocabulary, not a list of messages: words for the input, for being over, for a window.
Providers rephrase; what they talk about stays.
"""

from __future__ import annotations

from typing import Final


def either(*patterns: str) -> str:
    """A pattern for any of these."""
    return "(?:" + "|".join(patterns) + ")"


# Rates and money come first, since they speak of tokens and limits too.

RATE: Final = either(
    r"rate[-_ ]?limit",
    r"too many requests",
    r"throttl",
    r"requests?[-_ ]?(?:per|/)[-_ ]?(?:sec|min|hour|day)",
    r"(?<![a-z])(?:rpm|rpd|rps|qps)(?![a-z])",
    r"slow down",
    r"concurren(?:t|cy)",
    r"request limit",
    r"limit on requests",
    r"too frequent",
    r"queue (?:limit|is full|full|depth|size)",
    r"quota.{0,120}[a-z_]requests\b|request rate",
    r"频率|限流|限速|速率|请求过于频繁|请求过多|请求数|并发",
    r"调用次数|请求次数|访问频繁|レート制限|속도 제한",
)
_SPAN: Final = r"(?:sec|min|hour|day)"
TOKEN_RATE: Final = either(
    rf"\btokens?[-_ ]?(?:per|/|a|each|every)[-_ ]?{_SPAN}",
    rf"tokens?.{{0,20}}\bper ?(?:\w+ ?)?per ?{_SPAN}",
    r"tokens?.{0,40}\bper[-_ ]?(?:minute|day)\b",
    r"\bper[-_ ]?minute\b.{0,60}tokens",
    r"tokenspermin",
    r"tokensper\w*per(?:minute|day)",
    r"(?<![a-z])tp[md](?![a-z])",
    r"\btoken[-_ ]?(?:rate|throughput)",
    r"too many tokens.{0,40}(?:wait|later|slow)",
    r"rate[-_ ]?limit.{0,60}\btokens\b",
    r"\btokens?\b.{0,40}rate[-_ ]?limit",
    r"\bthrottl.{0,80}\btokens?\b",
    r"input_?token_?count.{0,80}(?:quota|limit:)",
    r"quota.{0,160}input_?token_?count",
    r"usage increase rate|acceleration limit",
    r"每分钟.{0,8}token|token.{0,12}(?:每分钟|限速|限流|频率|速率)",
)
PLAN: Final = either(
    r"\b(?:session|usage|weekly|daily|monthly|5-?hour|five-?hour|plan|message|opus) limits?\b"
    r"(?!ed)(?! (?:is |of )?\d+ tokens)",
    r"limit.{0,30}\bresets?\b",
    r"quota will reset",
    r"regain access|\ballowance\b",
    r"使用上限|(?:限额|额度|用量).{0,24}重置",
)
MONEY: Final = either(
    r"\bcredits?\b",
    r"\bbilling\b",
    r"\bpayment\b",
    r"\bafford\b",
    r"insufficient[-_ ](?:quota|balance|fund|credit|account)",
    r"balance (?:is )?(?:too low|insufficient|not enough)",
    r"quota (?:has been |was |is )?(?:exceeded|exhausted|reached|used up)",
    r"(?:exceed\w*|exhausted|out of|reached|hit) (?:your |the |its )?(?:\w+ ){0,2}quota",
    r"(?:current|monthly|daily|weekly|allocated) quota",
    r"spend(?:ing)?[-_ ](?:limit|cap)",
    r"budget (?:has been )?exceeded|exceeded.{0,20}(?:max )?budget|over budget",
    r"hard limit|key limit exceeded|good standing",
    r"prepaid|top[- ]up\b|\brecharge|arrears|overdue",
    r"upgrade (?:your|to a) (?:plan|paid)|paid account|subscription",
    r"account (?:is )?(?:not active|inactive|deactivated|suspended)",
    r"余额|欠费|充值|额度|配额|套餐",
)
BUSY: Final = either(
    r"overloaded",
    r"service (?:is )?(?:temporarily |currently )?unavailable",
    r"temporarily (?:unavailable|overloaded)",
    r"(?:at|over|no|out of|insufficient) capacity|capacity constraints",
    r"(?:server|service|model|engine) (?:is )?(?:currently )?(?:too )?(?:busy|overload)",
    r"currently (?:busy|unavailable|experiencing|at)",
    r"high (?:demand|load|traffic)",
    r"服务繁忙|系统繁忙|服务器繁忙|过载|负载|模型繁忙",
)
EXHAUSTED: Final = r"resource(?:s)?(?: has| have)?(?: been)? exhausted"
SOME_LIMIT: Final = (
    r"\btoken[-_ ]?limit (?:has been |was |is )?(?:exceeded|reached|hit)\b"
    r".{0,40}(?:later|wait|again)"
)
"""Of a minute or of a window: it does not say."""

# Who is asking.

_CREDENTIAL: Final = either(
    r"api[-_ ]?keys?",
    r"x-api-key",
    r"credentials?",
    r"(?:bearer|access|auth\w*|security|id|oauth|refresh|session|jwt)[-_ ]tokens?",
    r"bearer",
    r"\bjwt\b",
    r"oauth",
    r"authentication|authorization",
    r"service account",
    r"\b[cx]srf(?:[-_ ]tokens?)?",
    r"signature (?:we calculated|does)",
)
_REFUSED: Final = either(
    r"invalid(?:ated)?",
    r"not valid",
    r"incorrect",
    r"missing",
    r"expired",
    r"revoked",
    r"wrong",
    r"malformed",
    r"disabled",
    r"rejected",
    r"failed",
    r"not found",
    r"required",
    r"mismatch",
    r"not match",
    r"could not be",
)
AUTH: Final = either(
    rf"{_REFUSED}[-_ ]+(?:\w+ ){{0,2}}?{_CREDENTIAL}",
    rf"{_CREDENTIAL}.{{0,50}}{_REFUSED}",
    r"\bunauthori[sz]ed\b|not authori[sz]ed|unauthenticated|not authenticated",
    r"could not (?:validate|resolve|verify).{0,20}(?:credential|authentication|key)",
    r"no (?:api[-_ ]?key|credentials|auth)",
    r"please (?:log ?in|sign ?in|run /login)|signing in again",
    r"(?:permission|access) (?:was |is |has been )?denied",
    r"do(?:es)? ?(?:not|nt) have (?:\w+ )?(?:access|permission)",
    r"\btokens? (?:has |is |was )?(?:been )?(?:expired|revoked|invalid)",
    r"(?:expired|invalid) token\b",
    r"^forbidden\b|\b403 forbidden",
    r"未授权|鉴权|认证失败|身份验证|无权限|没有权限|密钥|令牌",
)

# Output.

MAX_OUTPUT: Final = either(
    r"\bmax[-_ ]?(?:new|completion|output|response|gen)?[-_ ]?tokens?(?:_to_sample)?\b",
    r"\bmaxoutputtokens\b",
    r"\bmaximum (?:number of )?(?:output|completion) tokens",
    r"\bmaximum tokens (?:you requested|requested|value)",
    r"\bnum_predict\b",
)
OUTPUT_CAP: Final = either(
    rf"{MAX_OUTPUT}.{{0,80}}?"
    + either(
        r"too (?:large|high|big|many)",
        r"exceed",
        r"(?:greater|more|larger|higher) than",
        r">",
        r"limited",
        r"at most",
        r"supported range|valid range|out of range",
        r"less than|lower than|no more than|not exceed|above max",
        r"\bmaximum\b",
        r"must be (?:<|between|in|within|no)",
        r"should be",
        r"cannot be",
        r"\d+ or (?:less|fewer)",
        r"超|上限|范围|过大",
    ),
    rf"(?:range of|exceed\w*|maximum value|above max|upper bound|limit).{{0,50}}?{MAX_OUTPUT}",
    rf"invalid (?:value (?:for|of) )?{MAX_OUTPUT}",
    r"supports? (?:at most|up to|a maximum of|only) \d+ (?:completion|output)",
    r"maximum (?:allowed )?number of (?:output|completion) tokens",
    r"(?:output|completion) tokens?.{0,40}(?:exceed|limit|maximum)",
    r"(?:输出|生成).{0,20}(?:超|上限|范围|过大)",
)
OUTPUT_CAP_PLAINLY: Final = either(
    rf"maximum value for {MAX_OUTPUT}",
    r"supports? (?:at most|up to) \d+ (?:completion|output) tokens",
)
_SENT: Final = r"\b(?:prompt|inputs?|messages|conversation|context|history)"
NOT_OUTPUT_CAP: Final = either(
    r"context[-_ ](?:length|window|size|limit)|max_model_len|n_ctx|上下文",
    r"input length and|(?:inputs?|prompt)(?: tokens?| token count| length)? ?(?:\+|plus|and|or) ",
    r"in the (?:messages|prompt)|in your prompt|\b(?:input|prompt)[_ ]tokens|prompt length",
    r"messages or completion",
    rf"{_SENT}(?: (?:is|are|was|has become))? too (?:long|large|big)",
    r"\bstream(?:ing)?\b",
    r"budget_tokens|thinking",
    r"unsupported parameter|not supported|unknown parameter|unrecogni[sz]ed",
    r"at least 1\b|(?:an|valid) integer|below min|positive|is required|null",
)
NO_ROOM: Final = (
    rf"{MAX_OUTPUT}.{{0,40}}?(?:at least|positive|greater|less than|below|>=?).{{0,30}}?-\d{{2,}}"
)
"""What is left for the reply was worked out, and is less than nothing."""
OUTPUT_ENDED: Final = either(
    r"(?:response|output|reply|message|generation).{0,40}exceeded.{0,20}output token",
    r"could not finish the message",
    r"(?:output|completion|response|reply) (?:was |is )?(?:truncated|cut off|incomplete)"
    r".{0,40}(?:max|length|limit)",
)

# Requests that are wrong whatever their length.

CALL_ID: Final = either(
    either(
        r"call_?id",
        r"tool_use\.id",
        r"tool_use_id",
        r"tool_calls?\W{0,4}\d*\W{0,3}id",
        r"\.id\b",
    )
    + r".{0,80}(?:too long|maximum length|pattern|invalid|at most|match|must be)",
    r"(?:invalid|should match).{0,60}(?:tool_?(?:use|call)_?id|call_?id)",
    r"tool[-_ ]call[-_ ]id.{0,40}(?:was|must|length|characters)",
)
LONG_CONTENT: Final = either(
    r"(?:content|input|text|output|arguments|instructions|system|prompt)[\w\[\].\s]{0,30}\W{0,3}"
    r":? ?string (?:is )?too long",
    r"string (?:is )?too long.*length (?:of )?(?:\d{6,})",
)
LONG_STRING: Final = r"string (?:is )?too long|string should have at most|string_too_long"
TOOLS: Final = either(
    r"\btools\b.{0,40}(?:array too long|too many|maximum|at most|exceed|limit)",
    r"too many (?:tools|functions)",
    r"(?:maximum|at most|more than|limit).{0,30}\b\d* ?(?:tools|functions|function declarations)\b",
)
_MEDIUM: Final = (
    r"\b(?:images?|picture|photo|pdf|pages?|video|audio|media|attachments?|documents?|"
    r"data[- ]uris?)\b"
)
MEDIA: Final = either(
    _MEDIUM
    + r".{0,80}"
    + either(
        r"exceed",
        r"too (?:large|many|big|long)",
        r"maximum|max allowed|at most",
        r"dimension|pixels",
        r"\bsize\b",
        r"not supported|unsupported|could not|invalid|unable to",
        r"> ?\d",
    ),
    r"(?:too (?:large|many|big)|exceed\w*|maximum|max|could not process|invalid|unsupported).{0,40}"
    + _MEDIUM,
    r"pixels",
    r"图片|图像",
)
THINKING: Final = either(
    r"\bthinking\b.{0,60}blocks?",
    r"redacted_thinking",
    r"signature in thinking",
    r"expected thinking",
    r"reasoning_content|reasoning item|encrypted_content",
    r"\breasoning\b.{0,40}(?:without|must be (?:passed|followed))",
)
PAGE_AS_JSON: Final = either(
    r"unexpected token <|<!doctype|unexpected character.{0,10}<",
    r"unexpected (?:token|character|identifier|non-whitespace|end of)\b.{0,60}\bjson\b",
    r"(?:unterminated|bad control character|expected).{0,30} in json",
    r"json(?:decodeerror)?: (?:expecting|extra data)",
)
"""An answer that cannot be read. A server that cannot read our request says so with a status."""
ENCODING: Final = either(
    r"surrogate",
    r"not valid json|malformed json|json (?:parse|decode) error|could not parse.{0,20}json",
    r"invalid (?:json|unicode|utf-?8|escape|control character)",
    r"unexpected end of (?:hex|json)",
    r"utf-?8",
)
PAIRS: Final = either(
    r"tool_?use.{0,60}without",
    r"tool_?result.{0,60}(?:without|must|unexpected|corresponding)",
    r"tool_call_?ids?.{0,60}(?:did not have|not found|must be followed)",
    r"preceding message with tool_calls|no (?:tool )?output found for",
    r"function (?:call|response) (?:parts|turn)",
    r"roles? must alternate|first message must|must end with a user",
    r"must (?:be non-?empty|contain non-?whitespace|have non-?empty)|at least one message",
)
PARAMETER: Final = either(
    r"budget_tokens",
    r"unsupported (?:parameter|value)|not supported with this model",
    r"unknown (?:parameter|field|name)|unrecogni[sz]ed (?:request )?(?:argument|field|key)",
    r"extra inputs are not permitted|input should be|field required|missing required",
    r"must be at least 1\b|must be (?:greater than|>) (?:or equal to )?(?:0|1)\b|positive integer",
    r"\btemperature\b|\btop_p\b|\btop_k\b",
    r"cache_control",
    r"(?:chat|prompt) template|jinja",
    r"schema",
    r"must be one of|is not a valid",
    r"reasoning is (?:required|mandatory)",
)
NO_MODEL: Final = either(
    r"\bmodel\b.{0,80}"
    r"(?:not found|not exist|doesnt exist|not available|decommissioned|deprecated|retired)",
    r"no such model|unknown model|invalid model|not a valid model|unsupported model|模型不存在",
    r"\bmodel (?:id|identifier|name)\b.{0,30}(?:invalid|not valid|unknown|unrecogni[sz]ed)",
    r"\bmodel(?: \S{1,60})? is (?:not supported|unsupported)\b",
    r"no (?:endpoints|providers|deployments?) (?:found|available)",
)
NO_MODEL_PLAINLY: Final = either(
    r"\bmodel\b.{0,80}(?:does not|doesnt|not) exist",
    r"not a valid model|invalid model (?:name|id|format)",
)
"""Said even where the same sentence also speaks of access."""
SMALL_WINDOW: Final = either(
    r"context window (?:is )?too small",
    r"(?:context|window).{0,60}(?:below|smaller than|under) (?:the )?(?:hard |required )?minimum",
    r"(?:minimum|at least).{0,20}\d+ tokens.{0,30}(?:configur|raise|required)",
)

# Overflow.

WINDOW: Final = either(
    r"context[-_ ]?(?:length|window|size|limits?|capacity|len|budget)",
    r"n(?:um)?_ctx\w*|max(?:imum)? context\b",
    r"max_(?:model_len|seq_len\w*|input_\w+|prompt_\w+|position_\w+|context_\w+)",
    r"max(?:imum)?(?: allowed| supported)? (?:model|sequence|input|prompt|context)[- ]?"
    r"(?:sequence )?(?:token )?(?:lengths?|len|size|tokens?|limit)",
    r"(?:input|prompt|model)(?:[- ]tokens?)?[- ](?:length[- ])?limits?",
    r"position embeddings",
)
OVER: Final = either(
    r"exceed\w*",
    r"overflow\w*|overr[au]n",
    r"surpass\w*|outgrown",
    r"too (?:long|large|big|many|much|small)",
    r"(?:longer|larger|greater|more|bigger|higher|smaller|less) than",
    r"\bbeyond\b|\babove\b|\bover the\b",
    r"\bout of\b",
    r"(?:does|do|did|can|could|will|would) ?(?:not|nt) (?:be )?(?:fit|accommodate)",
    r"cannot (?:fit|be longer|accommodate)",
    r"no (?:more )?(?:room|space)|not enough (?:room|space)|insufficient",
    r"\breached\b|\bis full\b|\bexhausted\b|\bhit the\b",
    r">=?|≥",
)
_INPUT: Final = either(
    r"inputs?",
    r"prompts?",
    r"messages",
    r"conversation",
    r"context",
    r"history",
    r"transcript",
    r"dialog(?:ue)?",
)
_TOKENS: Final = either(
    r"(?:input|prompt|context|message|total|request|requested)[-_ ]?tokens?"
    r"(?: count| length| number| usage)?",
    r"number of (?:input |prompt |total )?tokens",
    r"token count",
)
_SHORTEN: Final = r"(?:reduce|shorten|decrease|trim|truncate|compress)"
CHINESE_OVERFLOW: Final = either(
    r"(?:上下文|提示词?|prompt|输入|tokens?|对话|会话|消息|文本|请求内容|内容|历史|长度|字数|字符).{0,24}?"
    r"(?:超长|过长|太长|超出|超过|超限|过大|太大|溢出|上限|太多|过多)",
    r"(?:超出|超过|超|大于).{0,24}?"
    r"(?:上下文|tokens?|最大长度|长度限制|输入限制|输入长度|窗口|长度上限|最大输入)",
    r"最大(?:输入|上下文|prompt)\w{0,6}(?:是|为|:)? ?\d",
    r"压缩上下文|(?:精简|缩短|减少|压缩).{0,10}(?:输入|上下文|提示|对话|prompt|文本|消息)",
    r"(?:輸入|上下文|提示|對話|內容|長度).{0,20}?(?:超過|超出|過長|太長)",
    r"(?:超過|超出).{0,20}?(?:上下文|長度|token)",
)
OTHER_TONGUES: Final = either(
    r"(?:トークン|コンテキスト|プロンプト|入力).{0,24}?(?:超え|超過|長すぎ|上限|オーバー)",
    r"(?:컨텍스트|토큰|프롬프트|입력).{0,24}?(?:초과|너무 (?:길|많)|넘)",
    r"(?:контекст\w*|токен\w*|запрос\w*|длин\w*).{0,40}?(?:превы[шс]\w*|слишком (?:длин|больш)\w*)",
    r"превы[шс]\w*.{0,40}?(?:контекст|токен)",
    r"\b(?:contexto|tokens|prompt|entrada)\b.{0,40}?"
    r"\b(?:exced\w+|super[ao]\w*|ultrapass\w+|demasiad\w+|muito long\w+|sobrepas\w+)",
    r"\b(?:exced\w+|super[ao]\w*|ultrapass\w+|sobrepas\w+).{0,40}?(?:contexto|tokens)",
    r"\b(?:contexte|jetons|tokens|invite|prompt)\b.{0,40}?(?:dépass\w+|trop long\w*)",
    r"dépass\w+.{0,40}?(?:contexte|jetons|tokens)",
    r"\b(?:kontext\w*|tokens?|eingabe|prompt)\b.{0,40}?(?:überschr\w+|überst\w+|zu lang)",
    r"überschr\w+.{0,40}?(?:kontext|token)",
)
OVERFLOW: Final = either(
    # A window, and that it is not enough.
    rf"{WINDOW}.{{0,60}}?{OVER}",
    rf"{OVER}.{{0,60}}?{WINDOW}",
    rf"(?:do(?:es)?(?: not|nt)|can(?:not|t)|could(?: not|nt)) (?:be )?fit.{{0,60}}{WINDOW}",
    rf"{WINDOW}(?: (?:for|of) (?:this|the) model)? (?:is|of|=|:)? ?(?:only )?\d+.{{0,120}}?"
    r"(?:requested|request|resulted|contains?|has|have|got|prompt|input|messages|however|but|tokens)",
    r"\d+ (?:token )?max(?:imum)? context",
    r"context(?: is| was)? (?:too (?:long|large|big)|exceed\w*|overflow\w*|full\b)",
    r"(?:only (?:supports?|allows?|accepts?|has)|"
    r"(?:supports?|allows?|accepts?|limited to|has)(?: only| up to| at most| a maximum of)+) "
    r"\d+ ?[km]?(?: tokens?)?(?: of)? context",
    r"(?:larger|longer|bigger)[- ]context model",
    # A prompt, and that it is too long.
    r"\bprompts?(?: tokens?| token count| size| length| text| is| was| are){0,2} "
    r"(?:\(?[\d~ ]+(?:tokens)?\)? ?)?(?:is |are |was )?(?:far |way |much )?too (?:long|large|big)",
    r"\bprompt.{0,40}?exceed\w*.{0,40}?(?:\d|tokens|length|maximum|limit)",
    rf"{_INPUT}(?: length| size)?\b.{{0,40}}?(?:exceed\w*|(?:longer|larger|greater|more) than)"
    r".{0,60}?(?:tokens|context|maximum (?:allowed )?(?:input |prompt )?length|limit of \d+|"
    r"supported by|model)",
    r"(?:conversation|chat|thread|session|history)(?: is| has (?:gotten|become|grown))? "
    r"too (?:long|large|big)",
    r"(?:start|open|begin) a new (?:chat|thread|conversation|session).{0,60}(?:context|long|limit)",
    r"too large for (?:the )?model with",
    r"(?:request|body|payload|content) (?:is )?too large.{0,60}\btokens\b",
    r"(?:messages|(?:message|chat|conversation) history)(?: is| are)? too (?:long|large)",
    r"message you (?:submitted|sent) (?:is|was) too long",
    r"(?:text|request|message) (?:is |was )?too (?:long|large|big) for (?:the|this) model",
    r"\binput (?:is )?too long for (?:the |this )?(?:requested |selected )?model",
    # Tokens, and that they are too many.
    rf"{_TOKENS}.{{0,40}}?(?:exceed\w*|too (?:long|large|many)|(?:longer|larger|greater|more) than|"
    r"must (?:be|not exceed)|\bover\b|\babove\b)",
    r"\bsequence (?:is )?too long",
    r"(?:input|prompt)[_ ]tokens?.{0,20}\+.{0,60}> ?\w*\s?\d",
    r"\d+ tokens? (?:>=?|≥) ?\d+|\bprompt \d+ ?> ?\d+",
    r"exceed\w*.{0,40}?models? (?:max\w* )?token",
    r"exceed\w*.{0,40}?max(?:imum)? (?:number of |allowed )?(?:input |prompt )?tokens",
    r"exceed\w*.{0,40}?max(?:imum)?(?: allowed| supported)? (?:input|prompt|context|sequence)",
    r"tokens? to keep from the initial prompt|trying to keep the first \d+ tokens",
    r"tokens.{0,60}exceed max message tokens",
    # Input and output together.
    r"input length.{0,30}max_?tokens",
    rf"{_INPUT}(?: tokens?)?(?: token count)?(?: length)? ?(?:\+|plus|and) ?{MAX_OUTPUT}.{{0,40}}?"
    r"(?:must|exceed|<=|≤|should|cannot|less)",
    r"(?:prompt|input) ?(?:\+|plus|and) ?(?:completion|output|generation).{0,60}"
    r"(?:exceed|over|larger)",
    # What the length must be.
    r"inputs? (?:must|should|can) (?:only )?(?:have|be|contain) "
    r"(?:less|fewer|at most|no more|shorter)",
    r"range of (?:input|total) length|max(?:imum)? input characters|model max length exceeded",
    r"max(?:imum)? (?:prompt|input) (?:length|size|tokens?|characters?)(?: is| of|:)? \d+",
    # What to do about it.
    rf"{_SHORTEN} (?:the |your )?(?:length of |size of )?(?:the |your |either )?"
    r"(?:messages|prompt|inputs?|conversation|context|chat history|number of tokens|text)",
    r"(?:shorter|smaller) (?:prompt|input|context)|(?:fewer|less) (?:input|prompt) tokens",
    # Where the server keeps it.
    r"(?:kv[- ]cache|kv slot).{0,40}(?:full|not enough|insufficient|free space|no space)",
    r"find (?:a )?(?:memory|kv) slot",
    CHINESE_OVERFLOW,
    OTHER_TONGUES,
)
"""Wordings that no other failure uses once the near misses are out of the way."""

LOOSE_OVERFLOW: Final = either(
    r"\binput (?:text )?(?:is |was )?too (?:long|large|big)",
    r"too many (?:input |prompt |total )?tokens",
    r"token[-_ ]?limit(?: has been| was| is)? ?(?:exceeded|reached|hit)",
    r"exceed\w*.{0,30}token[-_ ]?limit",
    r"exceed\w*.{0,30}\d+ tokens|\d+ tokens.{0,30}exceed",
    r"tokens? exceed\w*",
    r"exceed\w* (?:the )?(?:maximum|max|allowed|limit)(?: number)?(?: of)? tokens",
    r"request (?:is )?too long|messages? (?:are|history is) too (?:long|large)",
    r"(?:input|request|sequence|text) (?:token )?length .{0,40}exceed",
    r"over(?: the)? (?:token|context) limit|context limit",
)
"""Wordings that a server which is merely busy uses too: its status decides first."""

PLUS_OUTPUT: Final = either(
    r"\b[1-9]\d* (?:tokens )?(?:in|for|of) (?:the |your )?"
    r"(?:completion|output|response|generation|reply)",
    rf"{MAX_OUTPUT}(?! (?:supported|allowed)\b)",
    r"to generate|(?<!\b0 )(?:completion|output|new) tokens",
    r"(?<!\()total length|\bmax length exceeded",
    r"(?:input|prompt) (?:\+|plus|and) (?:output|completion|response|generation)",
    r"(?:messages|prompt|inputs?) or (?:the |your )?(?:completion|output)",
    r"reserved for (?:the )?(?:output|completion|response)",
)
COMPACTION_FAILED: Final = either(
    rf"(?:{OVERFLOW}|context exceeds).*(?:compact\w*|summar\w*) (?:failed|error|timed out|aborted)",
    rf"(?:compact\w*|summar\w*) (?:failed|error).*(?:{OVERFLOW}|context exceeds)",
    rf"(?:error|failed|failure) (?:during|in|while|to) (?:compact|summar)\w*\b.{{0,99}}?{OVERFLOW}",
)
LONG_CONTEXT_TIER: Final = either(
    r"extra usage.{0,40}long[- ]context",
    r"long[- ]context.{0,60}"
    r"(?:extra usage|not (?:yet )?(?:available|enabled)|\bbeta\b|\btier\b|subscription|requires?)",
)
CHANNEL: Final = either(
    r"(?:^|[:-] )(?:message|caption|message_?text|text|msg)(?: caption| text)?"
    r"(?:_| is | )too[_ ]long\W*$",
    r"must be \d+ or fewer in length|msg_too_long|message text is too long",
    r"message exceeds.{0,20}(?:4096|2000|characters)",
)
TOOL_CAP: Final = either(
    r"\bmcp tool\b",
    r"use pagination|offset and limit parameters",
    r"\btool (?:response|result|output)\b.{0,60}exceed",
)

# The way there and back.

PAYLOAD: Final = either(
    r"(?:payload|entity|request|body|content|message)(?: size| length)?.{0,30}"
    r"(?:too large|larger than (?:max|the)|exceed\w*.{0,40}(?:size|bytes|\bmb\b))",
    r"maximum (?:request|payload|body|content|message)(?: body)? (?:size|length)",
    r"larger than max",
    r"请求体过大",
)
CANCELLED: Final = either(
    r"context cancell?ed",
    r"(?:request|operation|call|stream|task|retry) (?:was |has been )?(?:cancell?ed|aborted)\b",
    r"user cancell?ed|cancell?ed by|aborted by (?:the )?(?:user|client|caller)|^cancell?ed\W*$",
)
TIMEOUT: Final = r"timed? ?-?out|deadline exceeded|took too long|etimedout|超时"
CONNECTION: Final = either(
    r"\bconnection\b|\bconnect\b|\becon\w+|\bsocket\b|\bnetwork\b|unreachable|disconnected",
    r"broken pipe|\beof\b|peer closed|incomplete (?:chunked )?read|chunked|\bterminated",
    r"premature(?:ly)? clos|other side closed|\bbufio\b|without (?:completing|finishing)",
    r"\bdns\b|getaddrinfo|name resolution|\bssl\b|\btls\b|certificate",
    r"upstream|gateway|fetch failed|\bproxy\b",
    r"gzip|decompress|deflate|brotli|incorrect header check|content-encoding",
    r"stream (?:ended|closed|error|interrupted|reset)|remote (?:end|protocol)|protocol error",
    r"unexpected (?:end of|content)",
)
SERVER: Final = either(
    r"internal (?:server )?error|server error|server had an error|something went wrong",
    r"内部错误|服务器错误|系统错误",
)
REFUSED: Final = r"\binvalid (?:argument|request|parameter|params|value|input)\b|\bbad request\b"
WARNING: Final = r"^\W*warn(?:ing)?\b|\blevel=warn"
NOTHING: Final = (
    r"\A\W*"
    + either(
        r"(?:http|error|code|status|bad request|badrequesterror|4\d\d|no body|null|none)\W*",
        r"(?:provider returned error|unknown error|client error|invalid request|undefined)\W*",
    )
    + r"*\Z"
)
"""A text that says nothing but that there is an error."""
_REASON: Final = r"^\W*(?:\w*reason\W+)?"
LENGTH_REASON: Final = (
    rf"{_REASON}(?:length|max_?(?:output_?|completion_?)?tokens|max_length|token_limit)\W*$"
)
WINDOW_REASON: Final = (
    rf"{_REASON}(?:model_)?context_?(?:window|length|limit)?_?(?:exceeded|limit|full)\W*$"
)
