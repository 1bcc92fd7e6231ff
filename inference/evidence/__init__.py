"""The evidence log p(x | model), parameters and latents integrated out, with its Monte Carlo error.

Sequential Monte Carlo carries draws from the prior to the posterior: a path of densities leads from one to the other
(`inference.evidence.paths`), and a stage goes one step along it (`inference.evidence.stages`). Bridge sampling starts from draws
of any sampler (`inference.evidence.bridge`), thermodynamic integration from sweeps (`inference.evidence.thermodynamic`).
"""
