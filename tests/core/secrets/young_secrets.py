"""Keys of services that came up since 2023, and settings as tools print them.

None of them was ever valid. A key with a beginning of its own stands in plain text; one without is
given to its usual name.
"""

from __future__ import annotations

from tests.core.secrets.planted_secrets import ALNUM, BASE64, CAPITALS, HEX, URL_SAFE, made

_UUID = "-".join(made("uuid", HEX, count) for count in (8, 4, 4, 4, 12))
_LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"
_PAIR = made("pair", ALNUM, 24)


def _key(kind: str, before: str, alphabet: str, count: int) -> tuple[str, str]:
    return "use {} here", before + made(kind, alphabet, count)


def _given(name: str, alphabet: str, count: int) -> tuple[str, str]:
    return f"{name}={{}}\n", made(name, alphabet, count)


YOUNG: dict[str, tuple[str, str]] = {
    # models and agents
    "OpenAI session": _key("sess", "se" + "ss-", ALNUM, 40),
    "OpenAI service account": _key("svc", "sk-" + "svcacct-", URL_SAFE, 74),
    "OpenAI admin": _key("admin", "sk-" + "admin-", URL_SAFE, 74),
    "Anthropic admin": _key("antadmin", "sk-" + "ant-admin01-", URL_SAFE, 93),
    "Bedrock": _key("absk", "AB" + "SK", BASE64, 128),
    "Bedrock, short-lived": _key("bedrock", "bedrock-" + "api-key-", BASE64, 200),
    "Pinecone": ("use {} here", "pc" + f"sk_{made('pc', ALNUM, 5)}_{made('pcb', ALNUM, 63)}"),
    "Cohere": _given("COHERE_API_KEY", ALNUM, 40),
    "Cohere, CO_API_KEY": _given("CO_API_KEY", ALNUM, 40),
    "Voyage": _key("voyage", "pa" + "-", URL_SAFE, 43),
    "Jina": _key("jina", "jina" + "_", ALNUM, 60),
    "Together": _key("together", "tgp" + "_v1_", URL_SAFE, 43),
    "Cerebras": _key("cerebras", "cs" + "k-", _LOWER, 48),
    "LlamaCloud": _key("llama", "ll" + "x-", ALNUM, 48),
    "Fireworks": _key("fireworks", "fw" + "_", ALNUM, 24),
    "NVIDIA": _key("nvidia", "nv" + "api-", URL_SAFE, 64),
    "Tavily": _key("tavily", "tvly" + "-dev-", ALNUM, 32),
    "Firecrawl": _key("firecrawl", "fc" + "-", HEX, 32),
    "E2B": _key("e2b", "e2" + "b_", HEX, 40),
    "Weights & Biases": _key("wandb", "wandb" + "_v1_", ALNUM, 77),
    "LangSmith": _key("langsmith", "lsv2" + "_pt_", HEX, 32),
    "Langfuse": ("use {} here", "sk-" + f"lf-{_UUID}"),
    "ElevenLabs": _key("eleven", "sk" + "_", HEX, 48),
    "Deepgram": _given("DEEPGRAM_API_KEY", HEX, 40),
    "AssemblyAI": _given("ASSEMBLYAI_API_KEY", HEX, 32),
    "Mistral": _given("MISTRAL_API_KEY", ALNUM, 32),
    "DeepSeek": _key("deepseek", "sk" + "-", HEX, 32),
    "Exa": ("EXA_API_KEY={}\n", _UUID),
    # clouds and data
    "Cloudflare": _given("CLOUDFLARE_API_TOKEN", URL_SAFE, 40),
    "Cloudflare, user": _key("cfut", "cf" + "ut_", ALNUM, 48),
    "Cloudflare, origin CA": _key("origin", "v1" + f".0-{made('o', HEX, 24)}-", HEX, 146),
    "Fly": _key("fly", "fo" + "1_", URL_SAFE, 43),
    "Fly, macaroon": _key("macaroon", "fm" + "2_", BASE64, 180),
    "Vercel": _key("vercel", "vc" + "p_", ALNUM, 56),
    "Vercel, by name": _given("VERCEL_TOKEN", ALNUM, 24),
    "Supabase": _key("sbp", "sb" + "p_", HEX, 40),
    "Supabase, secret": _key("sbs", "sb" + "_secret_", URL_SAFE, 31),
    "Neon": _key("neon", "napi" + "_", _LOWER, 64),
    "PlanetScale": _key("pscale", "pscale" + "_tkn_", URL_SAFE, 43),
    "Render": _key("render", "rnd" + "_", ALNUM, 32),
    "Railway": ("RAILWAY_TOKEN={}\n", _UUID),
    "Upstash": _given("UPSTASH_REDIS_REST_TOKEN", ALNUM, 52),
    "ClickHouse": _key("click", "4b" + "1d", ALNUM, 38),
    "Tailscale": _key("tail", "tskey" + "-auth-k", ALNUM, 36),
    "1Password": _key("op", "ops" + "_eyJ", BASE64, 250),
    # building and watching
    "Resend": ("use {} here", "re" + f"_{made('re', ALNUM, 8)}_{made('reb', ALNUM, 24)}"),
    "PostHog": _key("posthog", "ph" + "x_", ALNUM, 43),
    "Buildkite": _key("bk", "bk" + "ua_", HEX, 40),
    "CircleCI": ("use {} here", "CCI" + f"PAT_{made('c', ALNUM, 22)}_{made('d', HEX, 40)}"),
    "Dynatrace": (
        "use {} here",
        "dt0" + f"c01.{made('d', CAPITALS, 24)}.{made('e', CAPITALS, 64)}",
    ),
    "New Relic": _key("newrelic", "NR" + "AK-", CAPITALS, 27),
    "Datadog": _given("DD_API_KEY", HEX, 32),
    "SonarQube": _key("sonar", "sq" + "p_", HEX, 40),
    "Contentful": _key("contentful", "CF" + "PAT-", URL_SAFE, 43),
    "Airtable": ("use {} here", "pa" + f"t{made('at', ALNUM, 14)}.{made('au', HEX, 64)}"),
    # settings as tools print them
    "JSON pair": ('{{"name": "API_KEY", "value": "{}"}}', _PAIR),
    "Kubernetes": ("env:\n- name: API_KEY\n  value: {}\n", _PAIR),
    "ECS": ('"environment":[{{"name":"HOST","value":"a"}},{{"name":"TOKEN","value":"{}"}}]', _PAIR),
    "Helm": ('  - name: DB_PASSWORD\n    value: "{}"\n', _PAIR),
    "CloudFormation": ('{{"ParameterKey": "ApiKey", "ParameterValue": "{}"}}', _PAIR),
    "Terraform": ('api_token = "{}"\n', _PAIR),
    "Docker Compose": ("environment:\n  - OPENAI_API_KEY={}\n", _PAIR),
}
"""For each kind a text with a place for a secret, and the secret."""
