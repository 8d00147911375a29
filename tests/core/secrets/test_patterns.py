"""Credentials by their shape: pairs of a name and a value, and kinds that are young."""

from __future__ import annotations

from tests.support.cases import check_all

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


YOUNG = (
    *("sess-", "ABSK", "pcsk_4", "fm2_", "fo1_", "vcp_", "vck_", "pa-", "tgp_v1_", "csk-", "llx-"),
    *("cfut_", "re_", "napi_", "e2b_", "fc-", "wandb_v1_", "CCIPAT_", "bkua_", "dt0c01."),
)


def test_younger_keys_are_masked() -> None:
    """Keys of services that came up since, by their beginnings."""

    def check(sign: str) -> None:
        secret = f"{sign}{PAIRED}{PAIRED[::-1]}9kD"
        assert secret not in without_secrets(f"export it: {secret}\n")

    check_all(YOUNG, check)
