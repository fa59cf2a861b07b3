"""Nexmark: the auction site that stream processors are measured by. So far its generator of events."""

from holons.nexmark.generator import events

__all__ = ["events"]
