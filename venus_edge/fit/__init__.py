"""MODEL + MACHINE -> PLAN: what fits, what is given up for it, and what it takes.

planner is pure arithmetic; machine probes, header reads a model file's first bytes, doctor checks.
"""
