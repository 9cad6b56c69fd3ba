"""The paper's studies on the public interface of dfi: its figures, tables and population truths.

Not part of the installed package. From a clone, ``python -m paper hiv --quick`` reproduces one
study and ``python -m paper all --quick`` all of them; see docs/reproduce.md.
"""
