# SPDX-License-Identifier: GPL-2.0
"""The benchmark: ferroce beside its rivals on the same processor, in the same boot.

figures   what is measured, and with which programs; what must be reached
plan      in which order: everything in turn, round after round
guest     runs the plan inside the machine, and prints what came out
parse     what the programs print, as numbers
host      starts the machine, reads what it prints, watches its processor time
stats     medians, ratios within one round, spread
table, picture, report   what people see
"""
