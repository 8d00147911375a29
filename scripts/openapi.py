"""Print the OpenAPI document of the gateway, for those who generate clients from it."""

from __future__ import annotations

import json

from holdfast.surfaces.http.openapi import document
from holdfast.surfaces.http.server import ROUTES

if __name__ == "__main__":
    print(json.dumps(document(ROUTES), indent=1, ensure_ascii=False))
