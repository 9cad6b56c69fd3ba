"""Exact line means of tree ensembles."""

from __future__ import annotations

from dfi._lines.trees.ensemble import TreeEnsemble
from dfi._lines.trees.model import TreeLines, tree_lines
from dfi._lines.trees.readers import read_trees, verify

__all__ = ["TreeEnsemble", "TreeLines", "read_trees", "tree_lines", "verify"]
