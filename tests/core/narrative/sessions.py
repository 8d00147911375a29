"""A made-up session in three languages, with twelve questions that a reader must be able to answer
after a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.records import Assistant, ToolResult, User

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

FILLER: Final = "\n".join(
    f"{n:4d}  value_{n} = compute({n}, offset={n * 7 % 13})" for n in range(160)
)
"""What a tool prints, and nobody needs again."""

LANGUAGES: Final[dict[str, dict[str, str]]] = {
    "English": {
        "task": "Orders over 50 EUR ship free, but the shop charges them. Find out why and fix it.",
        "cause": "The threshold is compared before the discount is taken off, so `net_total` is "
        "never what the customer pays. I propose to move the check behind `apply_discount`.",
        "consent": "yes, but leave the admin orders alone",
        "ruled_out": "Rounding was my first suspect; it is not the cause, because all sums are "
        "integers of cents.",
        "refusal": "never push to main, open a pull request",
        "decision": "I keep the old field in the export, since the warehouse reads it until June.",
        "rule": "All amounts stay in cents, whatever happens.",
        "next": "What is left: the invoice template still shows the gross sum.",
        "ticket": "SHOP-412 Free shipping is not granted. Customers complain since the release of "
        "March. Accept when an order of exactly 50 EUR ships free and the test for it is green. "
        "Do not change the price list, the finance team owns it and audits it every quarter now.",
    },
    "Chinese": {
        "task": "超过五十欧元的订单应该免运费，但商店还是收了。请找出原因并修好。",
        "cause": "门槛在扣除折扣之前比较，所以 `net_total` 从来不是顾客实际支付的金额。"
        "我建议把检查移到 `apply_discount` 之后。",
        "consent": "好，但是不要动管理员的订单",
        "ruled_out": "我先怀疑四舍五入，但不是它，因为所有金额都是以分为单位的整数。",
        "refusal": "不要直接推送到主分支，请开合并请求",
        "decision": "导出里保留旧字段，因为仓库到六月之前还在读它。",
        "rule": "无论如何金额都以分为单位。",
        "next": "还没做完：发票模板仍然显示含税总额。",
        "ticket": "SHOP-412 没有免运费。三月发布以后顾客一直在抱怨。"
        "验收标准是正好五十欧元的订单免运费，并且对应的测试通过。不要改价目表，价目表归财务团队所有，他们每个季度都会审核一次。"
        "如果有疑问请先联系客服负责人，她知道所有投诉的细节，也知道哪些订单已经退款。"
        "修复之后请在工单里写明原因，这样下次发布之前大家都能看到发生了什么事情，也能避免同样的错误。",
    },
    "Spanish": {
        "task": "Los pedidos de más de 50 EUR van sin gastos de envío, pero la tienda los cobra. "
        "Averigua por qué y arréglalo.",
        "cause": "El umbral se compara antes de restar el descuento, así que `net_total` nunca es "
        "lo que paga el cliente. Propongo mover la comprobación detrás de `apply_discount`.",
        "consent": "sí, pero no toques los pedidos de administración",
        "ruled_out": "Primero sospeché del redondeo; no es la causa, porque todas las sumas son "
        "enteros de céntimos.",
        "refusal": "nunca subas a main, abre una solicitud de cambios",
        "decision": "Dejo el campo antiguo en la exportación: el almacén lo lee hasta junio.",
        "rule": "Todos los importes siguen en céntimos, pase lo que pase.",
        "next": "Queda: la plantilla de la factura todavía muestra la suma bruta.",
        "ticket": "SHOP-412 No se concede el envío gratis. Los clientes se quejan desde la versión "
        "de marzo. Se acepta cuando un pedido de exactamente 50 EUR va gratis y pasa su prueba. "
        "No cambies la lista de precios, es del equipo de finanzas y la revisa cada trimestre.",
    },
}


class Log:
    """Makes records with ids."""

    def __init__(self, tools: dict[str, str]) -> None:
        self.records: list[Record] = []
        self._tools = tools

    def user(self, text: str) -> None:
        self.records.append(User(content=text, id=self._id()))

    def agent(self, text: str) -> None:
        self.records.append(Assistant(content=text, id=self._id()))

    def call(self, tool: str, result: str, text: str = "", **arguments: Any) -> None:
        is_error = arguments.pop("is_error", False)
        refused = arguments.pop("refused", None)
        number = f"c{len(self.records)}"
        name = self._tools.get(tool, tool)
        use = {"type": "tool_use", "id": number, "name": name, "input": arguments}
        said = [{"type": "text", "text": text}] if text else []
        self.records.append(Assistant(content=[*said, use], id=self._id()))
        self.records.append(
            ToolResult(
                tool_use_id=number,
                name=name,
                content=result,
                is_error=is_error,
                refused=refused,
                id=self._id(),
            )
        )

    def _id(self) -> str:
        return f"r{len(self.records):04d}"


def working_session(language: str, tools: dict[str, str] | None = None) -> list[Record]:
    """The session in one of the languages; `tools` renames its tools."""
    words = LANGUAGES[language]
    log = Log(tools or {})
    log.user(f"{words['task']} (SHOP-412)")
    log.call("fetch", words["ticket"], key="SHOP-412")
    for number in range(12):
        log.call("read", FILLER, path=f"shop/pricing/part_{number}.py")
    log.agent(f"{words['ruled_out']}\n\n{words['cause']}")
    log.user(words["consent"])
    log.call(
        "edit",
        "ok",
        path="shop/shipping.py",
        old="    if order.gross_total >= FREE_FROM:\n        return 0\n",
        new="    if order.net_total >= FREE_FROM:\n        return 0\n",
    )
    log.call(
        "run", "FAILED test_exactly_fifty: 450 != 0", command="pytest tests/shipping", is_error=True
    )
    log.call("read", FILLER, path="shop/discounts.py")
    log.call("run", "14 passed", command="pytest tests/shipping")
    log.call(
        "run",
        "not run",
        command="git push origin main",
        is_error=True,
        refused=words["refusal"],
    )
    log.agent(words["decision"])
    log.user(words["rule"])
    for number in range(12):
        log.call("search", FILLER, pattern=f"gross_{number}", path="shop")
    log.agent(words["next"])
    log.call("list", FILLER, path="shop/templates")
    return log.records


def probes(language: str) -> list[tuple[str, ...]]:
    """Twelve groups of strings; those of a group must stand together."""
    words = LANGUAGES[language]
    return [
        (words["task"],),
        (words["cause"],),
        (words["cause"][-20:], words["consent"]),
        (words["ruled_out"],),
        (words["refusal"], "git push origin main"),
        (words["decision"],),
        (words["rule"],),
        (words["next"],),
        (words["ticket"][:60],),
        ("shop/shipping.py", "gross_total", "net_total"),
        ("pytest tests/shipping", "test_exactly_fifty: 450"),
        ("pytest tests/shipping", "14 passed"),
    ]
