"""Parts of labs, and how each is graded: returned values, random draws, runs that climb, kernels that leave a posterior alone.

A part collects what the student's functions return, in a process of their own, and judges it against a naive oracle. May
import `inference.samplers` and below, and that inside functions only: a grade of returned values loads NumPy alone.
"""
