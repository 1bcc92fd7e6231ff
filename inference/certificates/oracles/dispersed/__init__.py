"""Oracles of variants of models, whose counts vary more than Poisson counts do, or have more zeros.

Their posteriors have no closed form given the latents. They are sampled with weights by grids over the parameters of one column
(`counts`).
"""
