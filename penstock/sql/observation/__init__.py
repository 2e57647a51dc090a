"""A pipeline as it is seen from outside, and the sentence that says what it does: values and pure functions.

`pipeline.py` has what is seen, `split_states.py` names the states of splits, `sentence.py` has the rules. Called by
`jobs` for what runs here and by `information_schema` for what does not.
"""
