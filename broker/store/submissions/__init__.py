"""Submitted jobs as rows: from JDL, CFG and SSS Job Objects."""
