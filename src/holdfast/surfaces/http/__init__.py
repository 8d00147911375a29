"""The HTTP API: routes are rows of tables, and the OpenAPI document is made from them."""
