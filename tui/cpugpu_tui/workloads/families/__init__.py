"""Work that people run every day, a file for each family. docs/catalogue.md lists it.

Every class counts FLOPs and bytes itself, because the app counts without torch. Inputs have fixed widths, and n grows.
"""
