"""Credentials of every kind that is known by its shape; none of them was ever valid.

They are made here, not written down: a key in a source file sets off every scanner there is.
"""

from __future__ import annotations

import hashlib
import string

ALNUM = string.ascii_letters + string.digits
BASE64 = ALNUM + "+/"
URL_SAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + string.digits


def made(kind: str, alphabet: str, count: int) -> str:
    """`count` characters that look random and are the same every time."""
    found = ""
    number = 0
    while len(found) < count:
        digest = hashlib.sha256(f"{kind}{number}".encode()).digest()
        found += "".join(alphabet[byte % len(alphabet)] for byte in digest)
        number += 1
    return found[:count]


def _key(kind: str, before: str, alphabet: str, count: int, after: str = "") -> str:
    return before + made(kind, alphabet, count) + after


TOKENS: dict[str, str] = {
    "Anthropic": _key("anthropic", "sk-ant-" + "api03-", URL_SAFE, 93, "AA"),
    "OpenAI": _key("openai", "sk-", ALNUM, 48),
    "OpenAI project": _key("project", "sk-" + "proj-", URL_SAFE, 96),
    "OpenRouter": _key("openrouter", "sk-or-" + "v1-", HEX, 64),
    "Groq": _key("groq", "gsk" + "_", ALNUM, 52),
    "xAI": _key("xai", "xai" + "-", ALNUM, 80),
    "Perplexity": _key("pplx", "pplx" + "-", ALNUM, 48),
    "Replicate": _key("r8", "r8" + "_", ALNUM, 37),
    "Hugging Face": _key("hf", "hf" + "_", ALNUM, 34),
    "Google API": _key("google", "AI" + "za", URL_SAFE, 35),
    "Google OAuth": _key("oauth", "ya" + "29.", URL_SAFE, 60),
    "Google refresh": _key("refresh", "1/" + "/0", URL_SAFE, 40),
    "GitHub": _key("github", "gh" + "p_", ALNUM, 36),
    "GitHub fine-grained": _key("pat", "github" + "_pat_", ALNUM, 22) + "_" + made("p", ALNUM, 59),
    "GitLab": _key("gitlab", "gl" + "pat-", URL_SAFE, 20),
    "npm": _key("npm", "npm" + "_", ALNUM, 36),
    "PyPI": _key("pypi", "pypi-" + "AgEIcHlwaS5vcmc", URL_SAFE, 70),
    "Docker": _key("docker", "dckr" + "_pat_", URL_SAFE, 27),
    "Slack bot": _key("slack", "xox" + "b-1234567890-1234567890123-", ALNUM, 24),
    "Slack app": _key("app", "xap" + "p-1-A0123456789-1234567890123-", HEX, 64),
    "AWS id": _key("aws", "AK" + "IA", CAPITALS, 16),
    "Alibaba": _key("alibaba", "LT" + "AI5t", ALNUM, 20),
    "Tencent": _key("tencent", "AK" + "ID", ALNUM, 32),
    "DigitalOcean": _key("digitalocean", "dop" + "_v1_", HEX, 64),
    "Vault": _key("vault", "hv" + "s.", URL_SAFE, 90),
    "Databricks": _key("databricks", "da" + "pi", HEX, 32),
    "Doppler": _key("doppler", "dp" + ".pt.", ALNUM, 43),
    "Stripe": _key("stripe", "sk" + "_live_", ALNUM, 24),
    "Shopify": _key("shopify", "shp" + "at_", HEX, 32),
    "Square": _key("square", "sq0" + "atp-", URL_SAFE, 22),
    "SendGrid": _key("sendgrid", "S" + "G.", URL_SAFE, 22) + "." + made("grid", URL_SAFE, 43),
    "Twilio": _key("twilio", "S" + "K", HEX, 32),
    "Telegram": _key("telegram", "7654321098" + ":AA", URL_SAFE, 33),
    "JSON web token": "ey"
    + "J"
    + made("head", ALNUM, 33)
    + "."
    + "ey"
    + made("claims", ALNUM, 80)
    + "."
    + made("sign", URL_SAFE, 43),
    "Notion": _key("notion", "ntn" + "_", ALNUM, 46),
    "Linear": _key("linear", "lin" + "_api_", ALNUM, 40),
    "Atlassian": _key("atlassian", "AT" + "ATT3xFfGF0", URL_SAFE, 60),
    "Figma": _key("figma", "fi" + "gd_", URL_SAFE, 40),
    "Grafana": _key("grafana", "gl" + "sa_", ALNUM, 32, "_" + made("sum", HEX, 8)),
    "Sentry": _key("sentry", "snt" + "ryu_", HEX, 64),
}
"""Tokens that are known wherever they stand."""

_PASSWORD = made("password", ALNUM, 14)
_SECRET = made("secret", BASE64, 40)

IN_CONTEXT: dict[str, tuple[str, str]] = {
    "AWS secret": (f"{TOKENS['AWS id']} and\n{{}}", _SECRET),
    "AWS secret by name": ("aws_secret_access_key = {}", _SECRET),
    "Azure storage": ("AccountName=x;AccountKey={};Endpoint", made("azure", BASE64, 86) + "=="),
    "database address": ("postgres://app:{}@db.internal/orders", _PASSWORD),
    "Redis address": ("redis://:{}@cache:6379", _PASSWORD),
    "bearer": ("curl -H 'Authorization: Bearer {}'", made("bearer", URL_SAFE, 40)),
    "basic": ("Authorization: Basic {}", made("basic", ALNUM, 24) + "7="),
    "cookie": ("Cookie: session={}; theme=dark", made("cookie", ALNUM, 40)),
    "address query": ("https://api.test/v1?user=x&access_token={}&a=b", made("query", ALNUM, 32)),
    "signed address": ("https://s3.test/x?X-Amz-Signature={}", made("signed", HEX, 64)),
    "flag": ("mysql --password {} -h db", _PASSWORD),
    "flag with =": ("deploy --api-key={}", made("flag", ALNUM, 24)),
    "curl user": ("curl -u admin:{} https://x.test", _PASSWORD),
    "environment": ("export DB_PASSWORD={}\n", _PASSWORD),
    "JSON": ('{{"apiKey": "{}"}}', made("json", ALNUM, 20)),
    "JSON in JSON": ('{{\\"client_secret\\": \\"{}\\"}}', made("escaped", ALNUM, 20)),
    "YAML": ("auth:\n  token: {}\n", made("yaml", ALNUM, 20)),
    "prose": ("the password is {}.", _PASSWORD),
    "other languages": ("Das Passwort ist {}", _PASSWORD),
    "Slack hook": ("https://hooks.slack.com/services/{}", f"T0123456/B0123456/{_SECRET[:0]}"
                   + made("hook", ALNUM, 24)),
}  # fmt: skip
"""Texts with a place for a secret that is known only by what stands around it."""

PRIVATE_KEY_BODY = "\n".join(made(f"line{number}", BASE64, 64) for number in range(12))
PRIVATE_KEY = (
    f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{PRIVATE_KEY_BODY}\n-----END RSA {'PRIVATE'} KEY-----"
)

HARMLESS = (
    "claude-sonnet-4-5-20250929",
    "gpt-4o-mini-2024-07-18",
    "us.anthropic.claude-opus-4-20250514-v1:0",
    "550e8400-e29b-41d4-a716-446655440000",
    made("git", HEX, 40),
    made("sha", HEX, 64),
    "sha512-" + made("integrity", BASE64, 86) + "==",
    "toolu_01" + made("tool", ALNUM, 22),
    "call_" + made("call", ALNUM, 24),
    "curl -H 'Authorization: Bearer $TOKEN' https://x.test",
    "export API_KEY=${API_KEY}",
    "api_key = <your-key>",
    "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "password: ********",
    "password = getpass.getpass()",
    "token = request.headers['x-token']",
    "const token: string = await getToken();",
    "secret: ${{ secrets.DEPLOY_TOKEN }}",
    "max_tokens=4096, total_tokens: 18234, prompt_tokens=12",
    "def login(user: str, password: str) -> Token:",
    "the sk-learn-compatible-estimators-interface",
    "task-force-one-hundred-and-twenty-three",
    "Never commit the API key. Always read the password from the environment.",
    "primary_key=True, foreign_key='users.id', sort_key: created_at",
    "https://example.test/path?page=2&key=name&sort=asc",
    "mongodb://user:password@localhost/db",
    "docker run -u 1000:1000 image",
    "keyboard_shortcut = 'ctrl+shift+k'",
    "src/components/authentication/PasswordResetTokenController.test.tsx",
    "the tokenizer splits `password` into two tokens: 4321 and 998",
)
"""What is often taken for a secret and is none."""
