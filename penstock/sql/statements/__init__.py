"""Own the statements of the language as frozen values, family by family.

Made by `convert`; executed by `execution`, planned by `plan`.
"""
