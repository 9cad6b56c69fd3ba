"""Exact line means of tree ensembles."""

from __future__ import annotations

from dfi.lines.trees.ensemble import TreeEnsemble
from dfi.lines.trees.model import TreeLines, tree_lines
from dfi.lines.trees.readers import read_trees, verify

__all__ = ["TreeEnsemble", "TreeLines", "read_trees", "tree_lines", "verify"]
