"""Text to terms: one place for both sides of the keyword search."""

from kb_core.analysis.analyzer import Analyzer

__all__ = ["Analyzer"]
