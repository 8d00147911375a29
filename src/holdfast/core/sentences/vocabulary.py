"""Words by their part in a sentence, all in lower case: the closed classes, and verbs of orders."""

from __future__ import annotations

from typing import Final

ORDER_VERBS: Final = frozenset(
    (
        *("use", "keep", "leave", "stick", "stay", "put", "add", "write", "rename", "remove"),
        *("replace", "set", "make", "name", "call", "move", "ask", "stop", "document", "limit"),
        *("treat", "send", "log", "store", "return", "create", "delete", "drop", "raise", "lower"),
        *("increase", "reduce", "change", "convert", "migrate", "split", "merge", "port"),
        *("support", "implement", "wrap", "wait", "retry", "format", "sort", "switch", "forget"),
        *("ignore", "assume", "quote", "cite", "answer", "reply", "avoid", "prefer", "refrain"),
        *("skip", "hold", "let", "bump", "double-check", "ensure", "remember", "squash", "commit"),
        *("push", "deploy", "prefix", "suffix", "spell", "address", "translate", "round", "cap"),
        *("respect", "follow", "obey", "honour", "honor", "preserve", "protect", "restrict"),
        *("allow", "forbid", "disable", "enable", "exclude", "include", "omit", "mask", "redact"),
        *("encrypt", "hash", "escape", "validate", "verify", "sign", "tag", "label", "mark"),
        *("pin", "freeze", "lock", "back", "archive", "rotate", "clean", "favour", "favor"),
        *("book", "schedule", "notify", "inform", "contact", "email", "ping", "page", "warn"),
        *("report", "update", "build", "fix", "test", "print", "show", "run", "mention", "pick"),
        *("choose", "take", "give", "bring", "buy", "order", "pay", "charge", "bill", "count"),
        *("measure", "cover", "handle", "target", "aim", "work", "speak", "talk", "phrase"),
        *("abbreviate", "capitalise", "capitalize", "indent", "align", "centre", "center"),
        *("define", "declare", "depend", "maintain", "practice", "practise", "apply", "extract"),
        *("integrate", "utilise", "utilize", "employ", "adopt", "embed", "incorporate", "design"),
        *("inject", "extend", "expose", "derive", "compute", "calculate", "generate", "produce"),
        *("emit", "throw", "catch", "parse", "serialise", "serialize", "encode", "decode", "load"),
        *("fetch", "save", "persist", "record", "register", "trigger", "invoke", "pass", "accept"),
        *("require", "demand", "insist", "provide", "supply", "specify", "state", "clarify"),
        *("justify", "explain", "annotate", "comment", "organise", "organize", "group", "order"),
        *("separate", "combine", "join", "append", "prepend", "insert", "place", "position"),
        *("install", "uninstall", "upgrade", "downgrade", "configure", "adjust", "tune", "adapt"),
        *("match", "mirror", "reuse", "share", "consider", "evaluate", "assess", "estimate"),
        *("minimise", "minimize", "maximise", "maximize", "optimise", "optimize", "simplify"),
        *("shorten", "expand", "truncate", "trim", "strip", "filter", "select", "map", "index"),
        *("guard", "secure", "authenticate", "authorise", "authorize", "sanitise", "sanitize"),
        *("anonymise", "anonymize", "delegate", "assign", "invite", "introduce", "greet", "thank"),
        *("apologise", "apologize", "offer", "propose", "suggest", "recommend", "discuss"),
        *("negotiate", "postpone", "delay", "cancel", "close", "resolve", "escalate", "route"),
        *("forward", "redirect", "subscribe", "unsubscribe", "monitor", "track", "audit"),
        *("benchmark", "profile", "debug", "refactor", "rewrite", "restructure", "decouple"),
        *("deprecate", "retire", "clone", "fork", "branch", "amend", "fill", "empty", "reset"),
        *("clear", "round", "scale", "resize", "crop", "rely", "trust", "doubt", "focus"),
        *("concentrate", "emphasise", "emphasize", "highlight", "underline", "italicise", "bold"),
        *("enter", "submit", "compile", "lint", "type", "press", "click", "hover", "scroll"),
        *("resist", "prevent", "prohibit", "deny", "block", "ban", "permit", "tolerate", "observe"),
        *("adhere", "conform", "comply", "abide", "commit", "pledge", "promise", "guarantee"),
        *("refer", "link", "attach", "upload", "download", "import", "export", "copy", "publish"),
        *("release", "ship", "cut", "rebase", "revert", "roll", "restart", "steer", "beware"),
        *("mind", "watch", "do", "be", "have", "get", "start", "begin", "end", "finish", "turn"),
        *("plan", "reserve", "cook", "serve", "bake", "substitute", "mock", "stub", "cache"),
        *("check", "double", "review", "approve", "confirm", "consult", "decline", "reject"),
        *("accept", "hide", "display", "render", "draw", "paint", "colour", "color", "say"),
        *("tell", "explain", "describe", "summarise", "summarize", "list", "read", "open"),
        *("look", "go", "see", "try", "find", "search", "continue", "proceed", "think", "help"),
    )
)
"""Verbs that begin an order."""

STEERING_VERBS: Final = frozenset(
    (
        *("run", "show", "print", "do", "be", "have", "get", "start", "begin", "finish", "take"),
        *("give", "check", "say", "tell", "explain", "describe", "summarise", "summarize", "list"),
        *("read", "open", "look", "go", "see", "try", "find", "search", "continue", "proceed"),
        *("think", "help", "wait", "fix", "test", "build", "review", "work", "let"),
        *("turn", "watch", "mind", "count", "double", "back", "report", "end", "restart", "talk"),
        *(
            "think",
            "thank",
            "press",
            "click",
            "scroll",
            "order",
            "close",
            "reset",
            "debug",
            "clear",
        ),
        *("doubt", "trust", "promise", "state", "map", "index", "type", "cancel", "block"),
    )
)
"""Verbs that mostly ask for the next step, and lay something down only with a limit to it."""

ARTICLES: Final = frozenset(("the", "a", "an", "my", "our", "your", "their", "its", "his"))
PREPOSITIONS: Final = frozenset(
    ("of", "to", "for", "with", "at", "from", "by", "into", "than", "about")
)
PARTICLES: Final = frozenset(("in", "on"))
AFTER_PARTICLE: Final = frozenset(("of", "than", "been", "or", "had", "were"))
"""Words that cannot follow a preposition that may end a clause: `from now on we …`."""
SUBJECTS: Final = frozenset(("i", "we", "he", "she", "they"))
FUNCTION_WORDS: Final = frozenset(
    (
        *("of", "to", "and", "in", "is", "it", "you", "that", "he", "was", "for", "on", "are"),
        *("with", "as", "they", "at", "be", "have", "from", "or", "had", "by", "but", "what"),
        *("were", "we", "when", "can", "there", "an", "a", "the", "which", "she", "do", "how"),
        *("if", "will", "then", "them", "so", "would", "him", "into", "has", "could", "than"),
        *("been", "who", "did", "may", "i", "am", "does", "should", "must", "might", "because"),
        *("my", "our", "your", "this", "these", "those", "each", "every", "now", "up", "did"),
        *("get", "come", "said", "made", "about", "many", "some", "her", "his", "their", "its"),
    )
)
"""Words that cannot follow an article."""
AFTER_PREPOSITION: Final = frozenset(
    (
        *("of", "and", "or", "but", "is", "are", "was", "were", "had", "if", "then", "so", "they"),
        *("he", "we", "i", "would", "could", "can", "will", "did", "does", "than", "been"),
        *("must", "should", "has", "am"),
    )
)
"""Words that cannot follow a preposition."""
AFTER_SUBJECT: Final = frozenset(
    (
        *("the", "a", "an", "of", "in", "at", "by", "from", "my", "your", "his", "their", "its"),
        *("i", "we", "he", "she", "they", "it", "you", "him", "them", "up", "out", "how"),
        *("who", "what", "which", "there", "than", "be", "been", "other", "oil", "my"),
    )
)
"""Words that cannot follow a pronoun that is a subject."""
AUXILIARIES: Final = frozenset(("can", "could", "would", "will", "may", "must", "should", "did"))
AFTER_AUXILIARY: Final = frozenset(
    (
        *("of", "in", "at", "is", "are", "was", "were", "the", "a", "an", "my", "had", "has"),
        *("his", "their", "its", "been", "for", "said", "made", "each", "than", "about", "from"),
        *("part", "did", "could", "would", "will", "up", "out", "as", "or", "to", "on", "into"),
        *("them", "him", "who", "which", "what", "there", "people", "way", "oil", "number"),
    )
)
"""Words that cannot follow an auxiliary in a statement."""
COPULAS: Final = frozenset(("is", "are", "was", "were", "be", "been", "am"))
AFTER_COPULA: Final = frozenset(
    (
        *("is", "are", "was", "were", "he", "they", "she", "have", "had", "has", "do", "did"),
        *("could", "would", "can", "will", "go", "get", "come", "find", "said", "him", "see"),
        *("be", "them", "look", "write", "make", "us", "use", "call"),
    )
)
"""Words that cannot follow a form of `to be` in a statement."""

CONJUNCTIONS: Final = frozenset(("and", "or", "but", "if", "when", "because", "which", "who", "so"))
AFTER_CONJUNCTION: Final = frozenset(("of", "than", "been", "but", "him", "because"))
"""Words that cannot follow a conjunction."""
NEVER_LAST: Final = frozenset(
    (
        *("the", "a", "an", "my", "our", "your", "their", "its", "his", "and", "or", "but", "than"),
        *("which", "who", "if", "because", "he", "she", "they", "we", "as", "of", "from", "was"),
        *("were", "these", "every"),
    )
)
"""Words that no sentence ends with."""
MODALS: Final = frozenset(
    (
        *("must", "mustn't", "should", "shouldn't", "shall", "has", "have", "need", "needs", "may"),
        *("can't", "cannot", "can", "ought", "is", "are", "better", "permitted", "supposed"),
    )
)
DEMANDS: Final = frozenset(
    (
        *("want", "wants", "insist", "insists", "require", "requires", "forbid", "forbids"),
        *("prohibit", "prohibits", "demand", "demands", "disallow", "disallows", "mandate"),
        *("mandates", "expect", "expects"),
    )
)
STATE_VERBS: Final = frozenset(
    (
        *("is", "are", "will", "live", "lives", "run", "runs", "sit", "sits", "stand", "stands"),
        *("start", "starts", "begin", "begins", "end", "ends", "close", "closes", "open", "opens"),
        *("applies", "apply", "belong", "belongs", "expire", "expires", "stay", "stays", "go"),
        *("goes", "has", "have", "use", "uses", "work", "works", "means", "read", "reads", "get"),
        *("gets", "hold", "holds", "point", "points", "listen", "listens", "replace", "replaces"),
        *("own", "owns", "handle", "handles", "need", "needs", "allows", "forbids", "requires"),
        *("lies", "responsible", "charge", "sign", "signs", "report", "reports", "come", "comes"),
        *("cover", "covers", "keep", "keeps"),
    )
)
"""Verbs without which a clause is no rule, no demand and no fact."""
PAST_WORDS: Final = frozenset(
    (
        *("yesterday", "last", "morning", "days", "year", "have", "turned", "think", "look"),
        *("looks", "seem", "seems", "reason", "allowed", "able", "were"),
    )
)
LASTING_WORDS: Final = frozenset(
    (
        *("from", "going", "henceforth", "hereafter", "future", "rule", "matter", "times"),
        *("exception", "notice", "time", "whenever", "doubt", "of", "mind", "forget", "reference"),
        *("record", "long", "unless", "only", "until", "default", "before", "after", "for"),
        *("without", "longer", "scope", "limits", "off-limits", "read-only", "read", "negotiable"),
        *("non-negotiable", "breaker", "dealbreaker", "no-go", "taboo", "freeze", "frozen", "stay"),
        *("stays", "remain", "remains", "must-have", "mandatory", "compulsory", "obligatory"),
        *("forbidden", "prohibited", "banned", "allowed", "permitted", "disallowed", "required"),
        *("welcome", "acceptable", "say", "mind", "scratch", "else", "that's", "sacred", "stone"),
    )
)
"""Words without which nothing is said to last."""
BEFORE_BEEN: Final = frozenset(
    (
        *("have", "has", "had", "i've", "we've", "you've", "they've", "it's", "that's", "not"),
        *("never", "always", "already", "also", "just", "only", "ever", "having", "recently"),
        *("haven't", "hasn't", "hadn't", "long", "still", "all", "there's", "he's", "she's"),
    )
)
"""Words that can come before `been`."""

ENGLISH: Final = frozenset(
    (
        *("the", "of", "to", "and", "is", "for", "with", "you", "that", "this", "it", "are", "we"),
        *("my", "our", "not", "be", "at", "by", "i", "don't", "should", "must", "have", "has"),
        *("from", "all", "please", "only", "your", "was", "were", "but", "if", "or", "as", "on"),
    )
)
GERMAN: Final = frozenset(
    (
        *("der", "die", "das", "und", "ist", "nicht", "bitte", "wir", "ich", "du", "mir", "den"),
        *("dem", "ein", "eine", "auf", "mit", "für", "kein", "keine", "keinen", "immer", "nie"),
        *("zu", "sind", "unser", "unsere", "mein", "meine", "dass", "sie", "es", "bis", "nur"),
        *("im", "von", "ab", "einen", "auch", "aber", "wenn", "muss", "dir", "wie", "hat"),
    )
)
FRENCH: Final = frozenset(
    (
        *("le", "la", "les", "de", "ne", "pas", "je", "il", "que", "est", "et", "tes", "tout"),
        *("notre", "nos", "mon", "ma", "mes", "des", "du", "un", "une", "avec", "pour", "dans"),
        *("merci", "toujours", "jamais", "partout", "sans", "vous", "tu", "en", "ce", "sur"),
    )
)
SPANISH: Final = frozenset(
    (
        *("el", "la", "los", "las", "de", "que", "sin", "en", "por", "para", "un", "una", "nada"),
        *("con", "es", "se", "al", "del", "favor", "siempre", "nunca", "nuestro", "nuestra"),
        *("mi", "mis", "sea", "sean", "hay", "solo", "puede", "prefiero", "lo", "y", "sé"),
        *("qué", "ha", "muy", "como", "esta", "pero", "más", "ayer", "gracias", "otra"),
    )
)
"""Words that tell the language of a sentence."""
