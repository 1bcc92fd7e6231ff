"""One file per method: its ``Options``, and ``run(task, options)``, which returns draws or points. Imports `inference.engine`.

A method names no model; `inference.fitting.fit` finds it by its name in ``METHODS``.
"""

# name -> module with Options (its options and their defaults) and run(task, options)
METHODS: dict[str, str] = {
    "em": "inference.methods.em",
    "hard_em": "inference.methods.hard_em",
    "stochastic_em": "inference.methods.stochastic_em",
    "cavi": "inference.methods.cavi",
    "hard_cavi": "inference.methods.hard_cavi",
    "exact": "inference.methods.exact",
    "gibbs": "inference.methods.gibbs",
    "tempered_gibbs": "inference.methods.tempered_gibbs",
    "collapsed_gibbs": "inference.methods.collapsed_gibbs",
    "map": "inference.methods.map",
    "laplace": "inference.methods.laplace",
    "advi": "inference.methods.advi",
    "pathfinder": "inference.unconstrained.pathfinder",
    "nuts": "inference.unconstrained.nuts",
    "chees": "inference.unconstrained.chees",
    "mclmc": "inference.unconstrained.mclmc",
    "smc": "inference.evidence.smc",
}
