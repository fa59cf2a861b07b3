"""Nodes without a JVM: taking turns in this process, over memory logs; or in processes of their own, over a site."""
