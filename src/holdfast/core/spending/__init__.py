"""The tokens and the money that calls of models take, and the budgets that limit them."""
