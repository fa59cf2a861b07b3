"""Measurements. Each bench returns flat records `{bench, case, system, metric, value, unit}`, one for each figure.

Nothing here is needed to run a job; only the command line imports it.
"""
