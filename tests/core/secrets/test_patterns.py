"""Credentials by their shape: pairs of a name and a value, and kinds that are young."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tests.core.secrets.young_secrets import YOUNG
from tests.support.cases import check_all
from tests.support.runs import sample

from holdfast.core.secrets.redaction import Redactor, without_secrets

PAIRED = "q8Zt3LmP0xYw7RkN2vBc"


def test_values_of_name_value_pairs_are_masked() -> None:
    """Settings are printed as pairs by Kubernetes, ECS, Helm and CloudFormation, in any order."""
    forms = (
        '{{"name": "API_KEY", "value": "{v}"}}',
        '{{"value": "{v}", "name": "API_KEY"}}',
        '[{{"name":"HOST","value":"db.7.internal"}},{{"name":"TOKEN","value":"{v}"}}]',
        '{{\\"name\\": \\"DB_PASSWORD\\", \\"value\\": \\"{v}\\"}}',
        '{{"ParameterKey": "DbPassword", "ParameterValue": "{v}"}}',
        "- name: API_KEY\n  value: {v}\n- name: OTHER\n  value: x",
        '        - name: "CLIENT_SECRET"\n          value: "{v}"\n',
        '{{"key":"API_KEY","variable_type":"env_var","value":"{v}"}}',
        '{{"Name": "/app/API_KEY", "Type": "SecureString", "Value": "{v}"}}',
        '{{\\"name\\": \\"API_KEY\\", \\"type\\": \\"text\\", \\"value\\": \\"{v}\\"}}',
        "- name: API_KEY\n  type: string\n  # of the team\n  value: {v}\n",
        "env:\n  - name: HOST\n    value: a\n  - name: REDIS_PASSWORD\n    value: {v}",
    )
    check_all(forms, lambda form: _check_only(form.format(v=PAIRED), PAIRED))


def _check_only(text: str, secret: str) -> None:
    masked = without_secrets(text)
    assert secret not in masked
    assert text.partition(secret)[0] == masked.partition("[masked")[0]
    assert masked.endswith(text.partition(secret)[2])


def test_pairs_that_hold_no_secret_stay() -> None:
    forms = (
        '{"name": "API_KEY", "value": "${API_KEY}"}',
        '{"name": "HOST", "value": "q8Zt3LmP0xYw7RkN2vBc.internal"}',
        "- name: API_KEY\n  valueFrom:\n    secretKeyRef:\n      name: my-secret-1\n",
        '{"name": "primary key", "value": "id"}',
    )

    def check(form: str) -> None:
        assert without_secrets(form) == form

    check_all(forms, check)


def test_values_of_pairs_are_masked_in_objects() -> None:
    """The same pair as an object, in the arguments of a call."""
    pair = {"name": "API_KEY", "value": PAIRED}
    tag = {"Key": "db_password", "Value": "correct horse", "note": "stays"}
    plain = {"name": "HOST", "value": "db.internal"}
    shown = Redactor().value([pair, tag | {"Value": PAIRED}, plain])
    assert PAIRED not in str(shown)
    assert shown[1]["note"] == "stays"
    assert shown[2] == plain


def test_younger_keys_are_masked() -> None:
    """Each of the 62 kinds, by its beginning, its form or the name that it is given to."""

    def check(kind: str) -> None:
        text, secret = YOUNG[kind]
        masked = without_secrets(text.format(secret))
        assert secret[8:-6] not in masked, masked

    assert len(YOUNG) == 62, "docs/secrets.md has the number"
    check_all(sorted(YOUNG), check)


def test_ordinary_code_has_hardly_a_mark() -> None:
    """Over the modules of Python itself: what is marked there is given to a name like `password`,
    or stands in an address."""
    folder = Path(sysconfig.get_path("stdlib"))
    sources = sample(sorted(folder.glob("*.py")), share=1 / 4, name=lambda path: path.name)
    texts = [path.read_text("utf-8", "replace") for path in sources]
    marks = [without_secrets(text).count("[masked") for text in texts]
    assert sum(map(len, texts)) > 500_000
    assert sum(marks) <= 2 * sum(map(len, texts)) / 1_000_000, dict(
        zip(sources, marks, strict=True)
    )
