"""Own the statements of the language as frozen values, family by family.

Made by `convert`. Called by `runner`, `execution`, `ddl`, `check` and `sql/plan`.
"""
