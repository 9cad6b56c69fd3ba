"""Disentangled Feature Importance: which correlated features carry the signal, and how sure are we?"""

from __future__ import annotations

__version__ = "0.1.0"
