"""Parts of ``tools/make_verifier.py``: how the small quickstart verifier and its data sets are made."""
