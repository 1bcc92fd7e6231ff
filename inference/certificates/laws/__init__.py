"""The check "kernel law": does a step of a method's kernel leave the joint law of parameters, latents and tables as it is?"""
