"""Screens beside the main one."""
