"""The words that failures use, as one table of patterns for text that `normalise.plain` returns.

Each entry is a vocabulary, not a list of messages: words for the input, for being over a limit,
for a window. Providers rephrase; what they talk about stays.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping


_COMMENT: Final = lazy_pattern(r"^ *# .*\n", re.MULTILINE)
_ENTRY: Final = lazy_pattern(r"^([a-z_]+):(.*\n(?:    .*\n)*)", re.MULTILINE)
_REFERENCE: Final = lazy_pattern(r"\{([a-z_]+)\}")


def read_table(table: str) -> dict[str, str]:
    """Return the pattern of each entry of a table.

    An entry is `name:` and its alternatives, on the same line or on indented lines, of which each
    holds one or more. A line that ends in a backslash goes on in the next. `{name}` stands for an
    earlier entry.
    """
    found: dict[str, str] = {}
    for name, lines in _ENTRY.findall(_COMMENT.sub("", table)):
        parts = (line.strip() for line in lines.replace("\\\n        ", "").splitlines())
        found[name] = expand("(?:" + "|".join(filter(None, parts)) + ")", found)
    return found


def expand(pattern: str, known: Mapping[str, str]) -> str:
    """Return a pattern with the entries of a table in the place of their names."""
    return _REFERENCE.sub(lambda match: known[match[1]], pattern)


@cache
def wordings() -> dict[str, str]:
    """Return the pattern of each entry of the table."""
    return read_table(_TABLE)


_TABLE: Final = r"""
# Rates and money come first, since they speak of tokens and limits too.
rate:
    rate[-_ ]?limit|too many requests|throttl
    requests?[-_ ]?(?:per|/)[-_ ]?(?:sec|min|hour|day)
    (?<![a-z])(?:rpm|rpd|rps|qps)(?![a-z])|slow down|concurren(?:t|cy)|request limit
    limit on requests|too frequent|queue (?:limit|is full|full|depth|size)
    quota.{0,120}[a-z_]requests\b|request rate|频率|限流|限速|速率|请求过于频繁|请求过多|请求数|并发
    调用次数|请求次数|访问频繁|レート制限|속도 제한
span: (?:sec|min|hour|day)
token_rate:
    \btokens?[-_ ]?(?:per|/|a|each|every)[-_ ]?{span}
    tokens?.{0,20}\bper ?(?:\w+ ?)?per ?{span}|tokens?.{0,40}\bper[-_ ]?(?:minute|day)\b
    \bper[-_ ]?minute\b.{0,60}tokens|tokenspermin|tokensper\w*per(?:minute|day)
    (?<![a-z])tp[md](?![a-z])|\btoken[-_ ]?(?:rate|throughput)
    too many tokens.{0,40}(?:wait|later|slow)|rate[-_ ]?limit.{0,60}\btokens\b
    \btokens?\b.{0,40}rate[-_ ]?limit|\bthrottl.{0,80}\btokens?\b
    input_?token_?count.{0,80}(?:quota|limit:)|quota.{0,160}input_?token_?count
    usage increase rate|acceleration limit
    每分钟.{0,8}token|token.{0,12}(?:每分钟|限速|限流|频率|速率)
plan:
    \b(?:session|usage|weekly|daily|monthly|5-?hour|five-?hour|plan|message|\
        opus) limits?\b(?!ed)(?! (?:is |of )?\d+ tokens)
    limit.{0,30}\bresets?\b|quota will reset|regain access|\ballowance\b
    \binference limits?\b|\b(?:service|endpoint|deployment) (?:is |was |has been )?paused\b
    使用上限|(?:限额|额度|用量).{0,24}重置
later: (?:try|retry|ask|come back)\b.{0,24}\blater\b
day: \bresets?\b|\b(?:tomorrow|week|month|daily|weekly|monthly|upgrade)
# A limit of the records that a model is trained with, not of a request.
training:
    \bfine-?tuning\b|\btraining (?:data|records?|jobs?|files?|examples?|sets?)
    customi[sz]ation jobs?
tokenizer_warning:
    token indices sequence length is longer
    input length of input_ids is \d+, but max_length is set to
    current text generation call will exceed the models predefined maximum
money:
    \bcredits?\b|\bbilling\b|\bpayment\b|\bafford\b
    insufficient[-_ ](?:quota|balance|fund|credit|account)
    balance (?:is )?(?:too low|insufficient|not enough)
    quota (?:has been |was |is )?(?:exceeded|exhausted|reached|used up)
    (?:exceed\w*|exhausted|out of|reached|hit) (?:your |the |its )?(?:\w+ ){0,2}quota
    (?:current|monthly|daily|weekly|allocated) quota
    spend(?:ing)?[-_ ](?:limit|cap)
    budget (?:has been )?exceeded|exceeded.{0,20}(?:max )?budget|over budget
    hard limit|key limit exceeded|good standing|prepaid|top[- ]up\b|\brecharge|arrears|overdue
    upgrade (?:your|to a) (?:plan|paid)|paid account|subscription
    account (?:is )?(?:not active|inactive|deactivated|suspended)
    余额|欠费|充值|额度|配额|套餐
busy:
    overloaded
    service (?:is )?(?:temporarily |currently )?unavailable
    temporarily (?:unavailable|overloaded)
    (?:at|over|no|out of|insufficient) capacity|capacity constraints
    (?:server|service|model|engine) (?:is )?(?:currently )?(?:too )?(?:busy|overload)
    currently (?:busy|unavailable|experiencing|at)|high (?:demand|load|traffic)
    服务繁忙|系统繁忙|服务器繁忙|过载|负载|模型繁忙
exhausted: resource(?:s)?(?: has| have)?(?: been)? exhausted
# Of a minute or of a window: it does not say.
some_limit:
    \btoken[-_ ]?limit (?:has been |was |is )?(?:exceeded|reached|hit)\b.{0,40}(?:later|wait|again)
# What a provider refuses to answer, whatever the request's shape.
policy:
    blocked by (?:the |our |its )?(?:content|safety|moderation)
    content (?:filtering|management) polic
    (?:content|safety) filters?\b|safety system|\bcontent exists risk
    flagged (?:as|for|by)\b
    (?:request|prompt|input|content|message)s? (?:was|were|has been|have been) flagged
    (?:inappropriate|prohibited|disallowed|harmful) content|unsafe or sensitive content
    violat\w+ .{0,60}polic|requires moderation\b|不安全或敏感|敏感内容
# Who is asking.
credential:
    api[-_ ]?keys?|x-api-key|credentials?
    (?:bearer|access|auth\w*|security|id|oauth|refresh|session|jwt)[-_ ]tokens?
    bearer|\bjwt\b|oauth|authentication|authorization|service account|\b[cx]srf(?:[-_ ]tokens?)?
    signature (?:we calculated|does)
rejected:
    invalid(?:ated)?|not valid|incorrect|missing|expired|revoked|wrong|malformed|disabled|rejected
    failed|not found|required|mismatch|not match|could not be
auth:
    {rejected}[-_ ]+(?:\w+ ){0,2}?{credential}|{credential}.{0,50}{rejected}
    \bunauthori[sz]ed\b|not authori[sz]ed|unauthenticated|not authenticated
    could not (?:validate|resolve|verify).{0,20}(?:credential|authentication|key)
    no (?:api[-_ ]?key|credentials|auth)
    please (?:log ?in|sign ?in|run /login)|signing in again
    (?:permission|access) (?:was |is |has been )?denied
    do(?:es)? ?(?:not|nt) have (?:\w+ )?(?:access|permission)
    \btokens? (?:has |is |was )?(?:been )?(?:expired|revoked|invalid)
    (?:expired|invalid) token\b|^forbidden\b|\b403 forbidden
    未授权|鉴权|认证失败|身份验证|无权限|没有权限|密钥|令牌
# Output.
max_output:
    \bmax[-_ ]?(?:new|completion|output|response|gen)?[-_ ]?tokens?(?:_to_sample)?\b
    \bmaxoutputtokens\b
    \bmaximum (?:number of )?(?:output|completion) tokens
    \bmaximum tokens (?:you requested|requested|value)
    \bnum_predict\b
output_cap:
    {max_output}.{0,80}?(?:too (?:large|high|big|many)|exceed|(?:greater|more|larger|higher) than|\
        >|limited|at most|supported range|valid range|out of range|less than|lower than|\
        no more than|not exceed|above max|\bmaximum\b|must be (?:<|between|in|within|no)|\
        should be|cannot be|\d+ or (?:less|fewer)|超|上限|范围|过大)
    (?:range of|exceed\w*|maximum value|above max|upper bound|limit).{0,50}?{max_output}
    invalid (?:value (?:for|of) )?{max_output}
    supports? (?:at most|up to|a maximum of|only) \d+ (?:completion|output)
    maximum (?:allowed )?number of (?:output|completion) tokens
    (?:output|completion) tokens?.{0,40}(?:exceed|limit|maximum)
    (?:输出|生成).{0,20}(?:超|上限|范围|过大)
output_cap_plainly:
    maximum value for {max_output}
    supports? (?:at most|up to) \d+ (?:completion|output) tokens
sent: \b(?:prompt|inputs?|messages|conversation|context|history)
# Of a context: the cap on a reply is a parameter, and has its name or its value beside it.
context_cap: \bmax(?:imum)? tokens? of \d+ (?:was |is |has been )?exceeded
not_output_cap:
    {context_cap}
    context[-_ ](?:length|window|size|limit)|max_model_len|n_ctx|上下文
    input length and|(?:inputs?|prompt)(?: tokens?| token count| length)? ?(?:\+|plus|and|or)[ ]
    in the (?:messages|prompt)|in your prompt|\b(?:input|prompt)[_ ]tokens|prompt length
    messages or completion
    {sent}(?: (?:is|are|was|has become))? too (?:long|large|big)
    \bstream(?:ing)?\b|budget_tokens|thinking
    unsupported parameter|not supported|unknown parameter|unrecogni[sz]ed
    at least 1\b|(?:an|valid) integer|below min|positive|is required|null
two_caps:
    max_tokens\b.{0,60}max_completion_tokens|max_completion_tokens\b.{0,60}max_tokens
# What is left for the reply was worked out, and is less than nothing.
no_room: {max_output}.{0,40}?(?:at least|positive|greater|less than|below|>=?).{0,30}?-\d{2,}
empty_reply: too long|exceed|truncat|empty
output_ended:
    (?:response|output|reply|message|generation).{0,40}exceeded.{0,20}output token
    could not finish the message
    (?:output|completion|response|reply) (?:was |is )?(?:truncated|cut off|incomplete).{0,40}\
        (?:max|length|limit)
# Requests that are wrong whatever their length.
call_id:
    (?:call_?id|tool_use\.id|tool_use_id|tool_calls?\W{0,4}\d*\W{0,3}id|\.id\b).{0,80}(?:too long|\
        maximum length|pattern|invalid|at most|match|must be)
    (?:invalid|should match).{0,60}(?:tool_?(?:use|call)_?id|call_?id)
    tool[-_ ]call[-_ ]id.{0,40}(?:was|must|length|characters)
long_content:
    (?:content|input|text|output|arguments|instructions|system|\
        prompt)[\w\[\].\s]{0,30}\W{0,3}:? ?string (?:is )?too long
    string (?:is )?too long.*length (?:of )?(?:\d{6,})
long_string: string (?:is )?too long|string should have at most|string_too_long
tools:
    \btools\b.{0,40}(?:array too long|too many|maximum|at most|exceed|limit)
    too many (?:tools|functions)
    (?:maximum|at most|more than|limit).{0,30}\b\d* ?(?:tools|functions|function declarations)\b
not_media: \btokens\b|context[-_ ](?:length|window|size|limit)
medium:
    \b(?:images?|picture|photo|pdf|pages?|video|audio|media|attachments?|documents?|\
        data[- ]uris?)\b
media:
    {medium}.{0,80}(?:exceed|too (?:large|many|big|long)|maximum|max allowed|at most|dimension|\
        pixels|\bsize\b|not supported|unsupported|could not|invalid|unable to|> ?\d)
    (?:too (?:large|many|big)|exceed\w*|maximum|max|could not process|invalid|\
        unsupported).{0,40}{medium}
    pixels|图片|图像
thinking:
    \bthinking\b.{0,60}blocks?|redacted_thinking|signature in thinking|expected thinking
    reasoning_content|reasoning item|encrypted_content
    \breasoning\b.{0,40}(?:without|must be (?:passed|followed))
# An answer that cannot be read. A server that cannot read our request says so with a status.
page_as_json:
    unexpected token <|<!doctype|unexpected character.{0,10}<
    unexpected (?:token|character|identifier|non-whitespace|end of)\b.{0,60}\bjson\b
    (?:unterminated|bad control character|expected).{0,30} in json
    json(?:decodeerror)?: (?:expecting|extra data)
encoding:
    surrogate
    not valid json|malformed json|json (?:parse|decode) error|could not parse.{0,20}json
    invalid (?:json|unicode|utf-?8|escape|control character)
    unexpected end of (?:hex|json)|utf-?8
pairs:
    tool_?use.{0,60}without
    tool_?result.{0,60}(?:without|must|unexpected|corresponding)
    tool_call_?ids?.{0,60}(?:did not have|not found|must be followed)
    preceding message with tool_calls|no (?:tool )?output found for
    function (?:call|response) (?:parts|turn)
    roles? must alternate|first message must|must end with a user
    must (?:be non-?empty|contain non-?whitespace|have non-?empty)|at least one message
parameter:
    budget_tokens
    unsupported (?:parameter|value)|not supported with this model
    unknown (?:parameter|field|name)|unrecogni[sz]ed (?:request )?(?:argument|field|key)
    extra inputs are not permitted|input should be|field required|missing required
    must be at least 1\b|must be (?:greater than|>) (?:or equal to )?(?:0|1)\b|positive integer
    \btemperature\b|\btop_p\b|\btop_k\b|cache_control|(?:chat|prompt) template|jinja|schema
    must be one of|is not a valid|reasoning is (?:required|mandatory)
no_model:
    \bmodel\b.{0,80}(?:not found|not exist|doesnt exist|not available|decommissioned|deprecated|\
        retired)
    no such model|unknown model|invalid model|not a valid model|unsupported model|模型不存在
    \bmodel (?:id|identifier|name)\b.{0,30}(?:invalid|not valid|unknown|unrecogni[sz]ed)
    \bmodel(?: \S{1,60})? is (?:not supported|unsupported)\b
    no (?:endpoints|providers|deployments?) (?:found|available)
# Said even where the same sentence also speaks of access.
no_model_plainly:
    \bmodel\b.{0,80}(?:does not|doesnt|not) exist
    not a valid model|invalid model (?:name|id|format)
small_window:
    context window (?:is )?too small
    (?:context|window).{0,60}(?:below|smaller than|under) (?:the )?(?:hard |required )?minimum
    (?:minimum|at least).{0,20}\d+ tokens.{0,30}(?:configur|raise|required)
# Overflow.
some_input: context|prompt|\binput|\btokens?\b|window
window:
    context[-_ ]?(?:length|window|size|limits?|capacity|len|budget)
    n(?:um)?_ctx\w*|max(?:imum)? context\b
    max_(?:model_len|seq_len\w*|input_\w+|prompt_\w+|position_\w+|context_\w+)
    (?:model|session|sequence|input|prompt|context|total) max(?:imum)? (?:length|len|size|tokens?)
    max(?:imum)?(?: allowed| supported)? (?:model|session|sequence|input|prompt|context)[- ]?\
        (?:sequence )?(?:token )?(?:lengths?|len|size|tokens?|limit)
    (?:input|prompt|model)(?:[- ]tokens?)?[- ](?:length[- ])?limits?
    position embeddings
over:
    exceed\w*|overflow\w*|overr[au]n|surpass\w*|outgrown|too (?:long|large|big|many|much|small)
    (?:longer|larger|greater|more|bigger|higher|smaller|less) than
    \bbeyond\b|\babove\b|\bover the\b|\bout of\b
    (?:does|do|did|can|could|will|would) ?(?:not|nt) (?:be )?(?:fit|accommodate)
    cannot (?:fit|be longer|accommodate)
    (?:no|no more|not enough|out of|insufficient) (?:room|space)|insufficient
    \breached\b|\bis full\b|\bexhausted\b|\bhit the\b
    >=?|≥
input: inputs?|prompts?|messages|conversation|context|history|transcript|dialog(?:ue)?
tokens:
    (?:input|prompt|context|message|total|request|requested)[-_ ]?tokens?\
        (?: count| length| number| usage)?
    number of (?:input |prompt |total )?tokens|token count
shorten: (?:reduce|shorten|decrease|trim|truncate|compress)
chinese_overflow:
    (?:上下文|提示词?|prompt|输入|tokens?|对话|会话|消息|文本|请求内容|内容|历史|长度|字数|\
        字符).{0,24}?(?:超长|过长|太长|超出|超过|超限|过大|太大|溢出|上限|太多|过多)
    (?:超出|超过|超|大于).{0,24}?(?:上下文|tokens?|最大长度|长度限制|输入限制|输入长度|窗口|\
        长度上限|最大输入)
    最大(?:输入|上下文|prompt)\w{0,6}(?:是|为|:)? ?\d
    压缩上下文|(?:精简|缩短|减少|压缩).{0,10}(?:输入|上下文|提示|对话|prompt|文本|消息)
    (?:輸入|上下文|提示|對話|內容|長度).{0,20}?(?:超過|超出|過長|太長)
    (?:超過|超出).{0,20}?(?:上下文|長度|token)
other_tongues:
    (?:トークン|コンテキスト|プロンプト|入力).{0,24}?(?:超え|超過|長すぎ|上限|オーバー)
    (?:컨텍스트|토큰|프롬프트|입력).{0,24}?(?:초과|너무 (?:길|많)|넘)
    (?:контекст\w*|токен\w*|запрос\w*|длин\w*).{0,40}?(?:превы[шс]\w*|слишком (?:длин|больш)\w*)
    превы[шс]\w*.{0,40}?(?:контекст|токен)
    \b(?:contexto|tokens|prompt|entrada)\b.{0,40}?\b(?:exced\w+|super[ao]\w*|ultrapass\w+|\
        demasiad\w+|muito long\w+|sobrepas\w+)
    \b(?:exced\w+|super[ao]\w*|ultrapass\w+|sobrepas\w+).{0,40}?(?:contexto|tokens)
    \b(?:contexte|jetons|tokens|invite|prompt)\b.{0,40}?(?:dépass\w+|trop long\w*)
    dépass\w+.{0,40}?(?:contexte|jetons|tokens)
    \b(?:kontext\w*|tokens?|eingabe|prompt)\b.{0,40}?(?:überschr\w+|überst\w+|zu lang)
    überschr\w+.{0,40}?(?:kontext|token)
# Wordings that no other failure uses once the near misses are out of the way.
overflow:
    # A window, and that it is not enough.
    {window}.{0,60}?{over}|{over}.{0,60}?{window}
    (?:do(?:es)?(?: not|nt)|can(?:not|t)|could(?: not|nt)) (?:be )?fit.{0,60}{window}
    {window}(?: (?:for|of) (?:this|the) model)? (?:is|of|=|:)? ?(?:only )?\d+.{0,120}?\
        (?:requested|request|resulted|contains?|has|have|got|prompt|input|messages|however|but|\
        tokens)
    context(?: is| was)? (?:too (?:long|large|big)|exceed\w*|overflow\w*|full\b)
    (?:(?:only|up to|at most|maximum of|limited to)(?: (?:supports?|allows?|accepts?|has))? \
        \d+ ?[km]?(?: tokens?)?(?: of)?|\d+ (?:token )?max(?:imum)?) context
    (?:larger|longer|bigger)[- ]context model
    # A prompt, and that it is too long.
    \bprompts?(?: tokens?| token count| size| length| text| is| was| are){0,2} (?:\(?[\d~ ]+\
        (?:tokens)?\)? ?)?(?:is |are |was )?(?:far |way |much )?too (?:long|large|big)
    \bprompt.{0,40}?exceed\w*.{0,40}?(?:\d|tokens|length|maximum|limit)
    {input}(?: length| size)?\b.{0,40}?(?:exceed\w*|(?:longer|larger|greater|more) than).{0,60}?\
        (?:tokens|context|maximum (?:allowed )?(?:input |prompt )?length|limit of \d+|\
        supported by|model)
    (?:conversation|chat|thread|session|history)(?: is| has (?:gotten|become|grown))? too (?:long|\
        large|big)
    (?:start|open|begin) a new (?:chat|thread|conversation|session).{0,60}(?:context|long|limit)
    too large for (?:the )?model with
    (?:request|body|payload|content) (?:is )?too large.{0,60}\btokens\b
    (?:messages|(?:message|chat|conversation) history)(?: is| are)? too (?:long|large)
    message you (?:submitted|sent) (?:is|was) too long
    (?:text|request|message) (?:is |was )?too (?:long|large|big) for (?:the|this) model
    \binput (?:is )?too long for (?:the |this )?(?:requested |selected )?model
    # Tokens, and that they are too many.
    {tokens}.{0,40}?(?:exceed\w*|too (?:long|large|many)|(?:longer|larger|greater|more) than|\
        must (?:be|not exceed)|\bover\b|\babove\b)
    \bsequence (?:is )?too long
    (?:input|prompt)[_ ]tokens?.{0,20}\+.{0,60}> ?\w*\s?\d
    \d+ tokens? (?:>=?|≥) ?\d+|\bprompt \d+ ?> ?\d+
    exceed\w*.{0,40}?models? (?:max\w* )?token
    exceed\w*.{0,40}?max(?:imum)? (?:number of |allowed )?(?:input |prompt )?tokens
    exceed\w*.{0,40}?max(?:imum)?(?: allowed| supported)? (?:input|prompt|context|sequence)
    tokens? to keep from the initial prompt|trying to keep the first \d+ tokens
    tokens.{0,60}exceed max message tokens
    # Input and output together.
    input length.{0,30}max_?tokens
    {input}(?: tokens?)?(?: token count)?(?: length)? ?(?:\+|plus|and) ?{max_output}.{0,40}?\
        (?:must|exceed|<=|≤|should|cannot|less)
    (?:prompt|input) ?(?:\+|plus|and) ?(?:completion|output|generation).{0,60}(?:exceed|over|larger)
    # What the length must be.
    inputs? (?:must|should|can) (?:only )?(?:have|be|contain) (?:less|fewer|at most|no more|shorter)
    range of (?:input|total) length|max(?:imum)? input characters
    {context_cap}|cannot truncate.{0,40}\d.{0,30}\b(?:required?|needs?|needed)\b
    max(?:imum)? (?:prompt|input) (?:length|size|tokens?|characters?)(?: is| of|:)? \d+
    # What to do about it.
    {shorten} (?:the |your )?(?:length of |size of )?(?:the |your |either )?(?:messages|prompt|\
        inputs?|conversation|context|chat history|number of tokens|text)
    (?:shorter|smaller) (?:prompt|input|context)|(?:fewer|less) (?:input|prompt) tokens
    # Where the server keeps it.
    (?:kv[- ]cache|kv slot).{0,40}(?:full|not enough|insufficient|free space|no space)
    find (?:a )?(?:memory|kv) slot|{chinese_overflow}|{other_tongues}
# Wordings that a server which is merely busy uses too: its status decides first.
loose_overflow:
    \b(?:{input}|request|sequence)(?: text| history)?(?: is| are| was| has become)? too \
        (?:long|large|big)
    too many (?:input |prompt |total |text ){0,2}(?:tokens|bytes|characters)
    token[-_ ]?limit(?: has been| was| is)? ?(?:exceeded|reached|hit)
    exceed\w*.{0,30}token[-_ ]?limit
    exceed\w*.{0,30}\d+ tokens|\d+ tokens.{0,30}exceed
    tokens? exceed\w*
    exceed\w* (?:the )?(?:maximum|max|allowed|limit)(?: number)?(?: of)? tokens
    (?:input|request|sequence|text) (?:token )?length .{0,40}exceed
    over(?: the)? (?:token|context) limit|context limit
plus_output:
    \b[1-9]\d* (?:tokens )?(?:in|for|of) (?:the |your )?(?:completion|output|response|generation|\
        reply)
    {max_output}(?! (?:supported|allowed)\b)
    to generate|(?<!\b0 )(?:completion|output|new) tokens
    (?<!\()total length|\bmax length exceeded
    (?:input|prompt) (?:\+|plus|and) (?:output|completion|response|generation)
    (?:messages|prompt|inputs?) or (?:the |your )?(?:completion|output)
    reserved for (?:the )?(?:output|completion|response)
compaction_failed:
    (?:{overflow}|context exceeds).*(?:compact\w*|summar\w*) (?:failed|error|timed out|aborted)
    (?:compact\w*|summar\w*) (?:failed|error).*(?:{overflow}|context exceeds)
    (?:error|failed|failure) (?:during|in|while|to) (?:compact|summar)\w*\b.{0,99}?{overflow}
long_context_tier:
    extra usage.{0,40}long[- ]context
    long[- ]context.{0,60}(?:extra usage|not (?:yet )?(?:available|enabled)|\bbeta\b|\btier\b|\
        subscription|requires?)
channel:
    (?:^|[:-] )(?:message|caption|message_?text|text|msg)(?: caption| text)?\
        (?:_| is | )too[_ ]long\W*$
    must be \d+ or fewer in length|msg_too_long|message text is too long
    message exceeds.{0,20}(?:4096|2000|characters)
tool_cap:
    \bmcp tool\b|use pagination|offset and limit parameters
    \btool (?:response|result|output)\b.{0,60}exceed
# The way there and back.
payload:
    (?:payload|entity|request|body|content|message)(?: size| length)?.{0,30}(?:too large|\
        larger than (?:max|the)|exceed\w*.{0,40}(?:size|bytes|\bmb\b))
    maximum (?:request|payload|body|content|message)(?: body)? (?:size|length)
    larger than max|请求体过大
cancelled:
    context cancell?ed
    (?:request|operation|call|stream|task|retry) (?:was |has been )?(?:cancell?ed|aborted)\b
    user cancell?ed|cancell?ed by|aborted by (?:the )?(?:user|client|caller)|^cancell?ed\W*$
timeout: timed? ?-?out|deadline exceeded|took too long|etimedout|超时
connection:
    \bconnection\b|\bconnect\b|\becon\w+|\bsocket\b|\bnetwork\b|unreachable|disconnected
    broken pipe|\beof\b|peer closed|incomplete (?:chunked )?read|chunked|\bterminated
    premature(?:ly)? clos|other side closed|\bbufio\b|without (?:completing|finishing)
    \bdns\b|getaddrinfo|name resolution|\bssl\b|\btls\b|certificate
    upstream|gateway|fetch failed|\bproxy\b
    gzip|decompress|deflate|brotli|incorrect header check|content-encoding
    stream (?:ended|closed|error|interrupted|reset)|remote (?:end|protocol)|protocol error
    unexpected (?:end of|content)
server:
    internal (?:server )?error|server error|server had an error|something went wrong
    内部错误|服务器错误|系统错误
refused: \binvalid (?:argument|request|parameter|params|value|input)\b|\bbad request\b
warning: ^\W*warn(?:ing)?\b|\blevel=warn
# A text that says nothing but that there is an error.
nothing:
    \A\W*(?:(?:http|error|code|status|bad request|badrequesterror|4\d\d|no body|null|none)\W*|\
        (?:provider returned error|unknown error|client error|invalid request|undefined)\W*)*\Z
reason: ^\W*(?:\w*reason\W+)?
length_reason: {reason}(?:length|max_?(?:output_?|completion_?)?tokens|max_length|token_limit)\W*$
window_reason: {reason}(?:model_)?context_?(?:window|length|limit)?_?(?:exceeded|limit|full)\W*$

# Codes, types and class names: lower case, letters and digits only.
overflow_code:
    context(?:length|window|size|limit)?exceeded|modelmaxprompttokensexceeded|tokenslimitreached
    exceed(?:ed)?contextsize|contextoverflow|maxcontextlength|\b(?:prompt|input)toolong
# The last is Zhipu's.
policy_code:
    content_?filter|contentpolicy|responsibleai|datainspectionfailed|moderationblocked|promptblocked
    contentmoderation|\b1301\b
# Of Zhipu and of Baidu.
overflow_number: \b(?:1261|336103)\b
money_code:
    insufficient(?:quota|balance|credits?|funds)|billing(?!disabled)|paymentrequired
    creditbalance|budgetexceeded|arrearage
auth_code:
    authentication|unauthori[sz]ed|unauthenticated
    permissiondenied|permissionerror|accessdenied|forbidden
    expiredtoken|unrecognizedclient|invalidapikey|apikeyinvalid|invalidsignature|tokeninvalidated
rate_code: ratelimit|resourceexhausted|toomanyrequests|throttl|requestlimitexceeded|\b1302\b
connection_code: connection|connecterror|readerror|protocolerror|networkerror|oserror|brokenpipe
refused_code: invalidrequest|badrequest|invalidargument|validation|unprocessable|invalidparam
quoted_type: chat|user|(?:user|assistant)[-_ ]?(?:text|message)|assistant|conversation
tool_type: tool|tool[-_ ]?(?:error|result|output|text)|mcp(?:[-_ ]?(?:tool|error))*
"""
