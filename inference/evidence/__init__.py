"""The evidence log p(x | model), parameters and latents integrated out, with its Monte Carlo error.

Sequential Monte Carlo carries draws from the prior to the posterior: a path of densities leads from one to the other (`paths`),
and a stage goes one step along it (`stages`). Bridge sampling starts from draws of any sampler (`bridge`), and thermodynamic
integration from sweeps (`thermodynamic`).
"""
