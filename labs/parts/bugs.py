"""The bugs of `spot_the_bug`: a line of the key, and what stands in its place in the student's file."""

SLIPS = (
    (
        '"""Ten formulas of latent variable models, each as it should be."""',
        '"""Ten formulas of latent variable models. Docstrings are right; each body has a bug, or two."""',
    ),
    (
        "    return (present + a - 1) / (present + absent + a + b - 2)",
        "    return (present + a - 1) / (present + absent + a - 1)",
    ),
    (
        "    spam = spam_share * np.prod(np.where(x, p_spam, 1 - p_spam))\n"
        "    ham = (1 - spam_share) * np.prod(np.where(x, p_ham, 1 - p_ham))",
        "    spam = np.prod(spam_share * np.where(x, p_spam, 1 - p_spam))\n"
        "    ham = np.prod((1 - spam_share) * np.where(x, p_ham, 1 - p_ham))",
    ),
    (
        "    return -0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * away @ np.linalg.solve(covariance, away)",
        "    return -0.5 * np.linalg.slogdet(covariance)[1] + away @ np.linalg.solve(covariance, away)",
    ),
    (
        "    return -0.5 * (forms[1] - forms[0]) + np.log(share_1 / (1 - share_1))",
        "    return 0.5 * (forms[1] - forms[0]) + np.log(share_1 / (1 - share_1))",
    ),
    (
        "    return (2 * b + len(x) * x.var()) / (len(x) + 2 * a - 1)",
        "    return (b + len(x) * (x**2).mean()) / (2 * a - 1 + len(x)) - x.mean() ** 2",
    ),
    (
        "    there = ~np.isnan(x)\n    return r[there].T @ x[there] / r[there].sum(0)",
        "    return r.T @ np.nan_to_num(x) / r.sum(0)",
    ),
    (
        "        alpha.append((alpha[t] @ step) * emit[:, x[t + 1]])",
        "        alpha.append((alpha[t] @ step) * emit[:, x[t]])",
    ),
    (
        "        counts += alpha[t][:, None] * step * emit[:, x[t + 1]] * beta[t + 1]",
        "        counts += alpha[t][None, :] * step * emit[:, x[t + 1]] * beta[t + 1]",
    ),
    (
        "    scores, pointers = start * emit[:, x[0]], []",
        "    scores, pointers = start, []",
    ),
    (
        "    path = [int((scores * stop).argmax())]",
        "    path = [int(scores.argmax())]",
    ),
    (
        "    return np.linalg.solve(W.T @ W + variance * np.eye(W.shape[1]), W.T @ (x - mean).T).T",
        "    return np.linalg.solve(W.T @ W, W.T @ (x - mean).T).T",
    ),
)
