"""Methods that carry draws from the prior to the posterior and estimate the evidence on the way: sequential Monte Carlo.

A path of densities leads from one to the other (`inference.evidence.paths`), and a stage goes one step along it
(`inference.evidence.stages`). BlackJAX's kernels move the draws, the zoo's driver runs the stages.
"""
