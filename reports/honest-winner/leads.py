#!/usr/bin/env python3
"""Leads for the federated recommender FedTide, judged before the instant at 60 % of the ratings.

Usage: python3 leads.py DATA_DIR OUT.csv
Read: the FILES. Of ml-1m only users 1 to 2,999 (true clock times). The last two are cut to their 5-core first.
Written: a row for each setting and data set, and their mean.
Settings: the ROWS, from leads 0 to 7, the two chosen of 14, and the ablation (X0, X1 alone; 11 fit).

Cuts lie at 20, 30, 40 and 50 % of the sorted times. A window ends at the next cut, the last at 60 %.
Later ratings are dropped when read. A window is fitted with the package of its beginning.
It is ranked with the mean state of the windows before, weights 1, g, g^2 from the newest, g = .5.
The windows from 30, 40 and 50 % are evaluated, for users with a rating before the cut.
All items rated before the cut are ranked, except the user's own.
`first` is NDCG@10 of the items at the user's first instant in the window, `all` of all its items.
`users` counts pairs of user and window. Differences are to FedTide.
Intervals: 95 %, 2,000 bootstrap samples over users; a user's windows stay together.
Caution: THETA0 was found on this period, on ml-100k and amazon among others.
Leads 11 and 14 came after the other rows had been seen: they are picked by hindsight.
"""
import csv, sys
from functools import lru_cache
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from scipy.special import softmax

FILES = {'ml-100k': ('ml-100k/u.data', '\t'), 'ml-1m': ('ml-1m/ratings.csv', ','),
         'amazon': ('amazon-instant-video/ratings_Amazon_Instant_Video.csv', ','),
         'movietweetings': ('movietweetings-100k/ratings.dat', '::')}
HALF, EPS, DISC = [1, 3, 10, 30, 100, 400, 1e9], 1e-6, np.r_[1 / np.log2(np.arange(2, 12)), 0]
THETA0 = dict(X0=.8, X1=.3, e1=.15, e2=.05, age=-.3)  # the terms and their prior means
# setting | terms more (- less) | options | values of @; drift...:7 is of returning users
ROWS = '''0 base
FedTide of the prototype |
decayed count, best of windows before | | count=0
returning count, best of windows before | | count=7
qr alone (mixture of returning counts) | -X0 -e1 -e2 -age
X0 alone (qa and P mixed) | -X1 -e1 -e2 -age
0 noise
a standard normal feature, seed @ | noise:@ | | 0 1 2
1 fallback
L2 @ | | l2=@ | 5 80 300 1000
prior (1,0,0,0,0), L2 @ | | prior=dict(X0=1), l2=@ | 20 80 300
2 length
theta_a + theta_b ln(n), L2 of b @ | X0* X1* e1* e2* age* | l2x=@ | 5 20 80 300
3 drift
3/30 d, c @ | drift:3:30:@ | | 0.1 1 5
10/100 d, c @ | drift:10:100:@ | | 0.1 1 5
3/30 and 10/100 d, c @ | drift:3:30:@ drift:10:100:@ | | 0.1 1
returning 3/30 d, c 0.1 | drift:3:30:.1:7
returning 3/30 and 10/100 d, c 0.1 | drift:3:30:.1:7 drift:10:100:.1:7
4 memory
P with memory @ besides | X0:@ | | 1 10
P with memory all besides | X0:inf
5 factors
ALS dim:a0:lambda:half-life @ besides e1 | als:@ | | 16:0.1:0.03:200 32:0.02:0.03:200 32:0.1:0.03:30
ALS dim:a0:lambda:half-life @ in place of e1 | -e1 als:@ | | 32:0.1:0.03:200 32:0.02:0.03:200 32:0.1:0.03:30
6 pairs
pairs in place of e2, (.5, @) | -e2 pairs:.5:@ | | 0.25 0.5 0.75
steps (.5, @) in place of e2 | -e2 steps:.5:@ | | 0.25 0.5 0.75
steps (1, 0) in place of e2 | -e2 steps:1:0
7 pool
g @, pool 100 | | g=@ | 0 1
g 0.5, pool @ | | pool=@ | 50 300 1000
g 1, pool @ | | g=1, pool=@ | 300 1000
11 fit
drift all 3/30 in place of @ | -@ drift:3:30:.1 | | age X1
14 returning
returning 3/400 d, c 0.1 | drift:3:400:.1:7
returning 3/30 and all 10/100 d, c 1, L2 80 (drift 20) | drift:3:30:1:7 drift:10:100:1 | l2=80, l2x=20'''
find = np.searchsorted
take = lambda x, J: np.take_along_axis(x, J, 1)
code = lambda x: np.unique(x, return_inverse=True)[1]
f16 = lambda x: np.asarray(x, 'f2').astype(float)
def coarse(x, levels):
    top = np.maximum(f16(np.abs(x).max(1, keepdims=True)), 1e-7)
    return np.rint(np.clip(x / top, -1, 1) * levels) * top / levels

def read(data, path, sep):
    rows = [line.split(sep) for line in open(path)]
    if data == 'ml-1m':
        rows = [r for r in rows[1:] if int(r[0]) <= 2999]
    u, i, *_, t = zip(*rows)
    u, i, t = code(u), code(i), np.array(t, float)
    k = np.array('ml-' in data)
    while not k.all():  # 5-core
        k = (np.bincount(u)[u] >= 5) & (np.bincount(i)[i] >= 5)
        u, i, t = u[k], i[k], t[k]
    cut = np.quantile(t, (.2, .3, .4, .5, .6))
    k, = np.nonzero(t < cut[4])  # no later rating goes further
    k = k[np.lexsort((i[k], t[k], u[k]))]
    return code(u[k]), code(i[k]), t[k], cut

class Cut:
    """The server's sums at a cut, and the devices that have a window"""
    def __init__(c, u, i, t, cut, z, seed):
        c.seed, c.m = seed, i.max() + 1
        h, w = t < cut[z], (t >= cut[z]) & (t < cut[z + 1])
        c.dev = np.intersect1d(u[h], u[w])
        w &= np.isin(u, c.dev)
        d, j, start = find(c.dev, u[w]), i[w], t[w]
        k = start == start[find(d, d)]
        c.targets = dict(first=(d[k], j[k]), all=(d, j))
        u, i, t = c.u, c.i, _ = u[h], i[h], t[h]
        c.days, time = (cut[z] - t) / 86400, u * 1e10 + t
        visit = np.cumsum(np.diff(time, prepend=0) > 86400)  # of a user, up to a gap of a day
        ret = visit > visit[find(u, u)]  # not in the first visit
        arrive = ret & (t == t[find(visit, visit)])  # at a later visit's first instant
        c.counts, c.old, c.steps = np.zeros((c.m, 21)), np.zeros(c.m), np.zeros((c.m, c.m))
        dec, w = .5 ** (c.days / np.c_[HALF]), .5 ** (c.days / 200)
        np.add.at(c.counts, i, np.vstack([dec, dec * ret, dec * arrive]).T)
        c.live, c.dist = c.counts[:, 6] > 0, c.counts / np.maximum(c.counts.sum(0), 1e-9)
        np.maximum.at(c.old, i, c.days)
        for lag in range(1, 21):  # steps from the 20 own rows before, strictly earlier
            p = np.arange(lag, len(u))
            p = p[(u[p] == u[p - lag]) & (t[p] > t[p - lag])]
            np.add.at(c.steps, (i[p - lag], i[p]), w[p])
        x = sp.csr_matrix((np.sqrt(w), (u, i)), shape=(u[-1] + 1, c.m))
        c.pairs = (x.T @ x).toarray()
        c.nn = f16(np.maximum(np.diag(c.pairs), .1))
        e, U = eigsh(c.nn[:, None] ** -.25 * c.pairs * c.nn ** -.25, k=96, v0=np.ones(c.m))
        c.s, col = np.sqrt(e), np.abs(U).mean(0)
        c.U = coarse(U / col, 7) * col  # 4 bits a number
        k, n = np.isin(u, c.dev), np.bincount(u)
        c.d, c.di, c.n = find(c.dev, u[k]), i[k], n[c.dev]  # own items
        c.rho = (find(u, u, 'right') - find(time, time, 'right'))[k]  # those strictly later
        c.length = np.log(c.n) - np.median(np.log(n[n > 0]))
        c.ok = np.tile(c.live, (len(c.n), 1))
        c.ok[c.d, c.di] = False

    def own(c, w):
        return sp.csr_matrix((w, (c.d, c.di)), shape=c.ok.shape)

    def aims(c, kind):
        d, j = c.targets[kind]
        k = c.live[j]
        return d[k], j[k], 1 / np.bincount(d[k])[d[k]]

@lru_cache(32)
def P(c, tau=3.):
    A, w = c.U * c.s * c.nn[:, None] ** .25, np.exp(-c.rho / tau)
    total = np.maximum(A @ A.sum(0) - (A * A).sum(1), 0) + 5
    return np.maximum(c.own(w / np.bincount(c.d, w)[c.d] / total[c.di]) @ A @ A.T, 0)

def e1(c):
    Z = c.U * np.sqrt(c.s ** 2 / (c.s ** 2 + 6 * c.s[0] ** 2))
    return c.own(1 / c.n[c.d]) @ (c.nn[:, None] ** -.25 * Z) @ Z.T / (1 - np.minimum((Z * Z).sum(1), .99))

def near(c, D, row, col, a, b):
    """The 10 best neighbours of own items, one byte each"""
    D = D / row[:, None] ** a / col ** b
    np.fill_diagonal(D, 0)
    J = np.argpartition(-D, 10, 1)[:, :10]
    N = sp.csr_matrix((coarse(take(D, J), 255).ravel(), J.ravel(), np.arange(c.m + 1) * 10), shape=D.shape)
    return (c.own(.1 + np.exp(-c.rho / 3)) @ N).toarray()

def drift(c, short, long, add, first=0):
    return np.subtract(*(np.log(c.counts[:, int(first) + HALF.index(h)] + add) for h in (short, long)))

def als(c, K, a0, lam, half):
    """implicit ALS, weights with decay"""
    def solve(M, Y):
        X, G, one = [], a0 * (Y.T @ Y), lam * np.eye(int(K))
        for a, b in zip(M.indptr, M.indptr[1:]):
            y, w = Y[M.indices[a:b]], M.data[a:b]
            X.append(np.linalg.solve(G + (y.T * w) @ y + (w.sum() + a0 * len(Y)) * one, w @ y))
        return np.array(X)
    Y = np.random.default_rng(0).normal(size=(c.m, int(K))) * .1
    M = sp.csr_matrix((.5 ** (c.days / half), (c.u, c.i)), shape=(c.u[-1] + 1, c.m))
    for _ in range(8):
        Y = solve(M.T.tocsr(), solve(M, Y))
    return solve(M, Y)[c.dev] @ Y.T

steps = lambda c, a=.5, b=0: near(c, c.steps, c.steps.sum(1) + 1, c.steps.sum(0) + 1, a, b)
TERMS = dict(e1=e1, e2=steps, steps=steps, pairs=lambda c, a, b: near(c, c.pairs, c.nn, c.nn, a, b),
             drift=drift, als=als, age=lambda c: f16(np.log1p(c.old)),
             noise=lambda c, seed: np.random.default_rng([int(seed), c.seed]).normal(size=c.ok.shape))

@lru_cache(64)
def term(c, name):
    """z-scores over the items that a device ranks; the name has numbers, as drift:3:30:.1:7"""
    name, *numbers = name.split(':')
    x = np.where(c.ok, TERMS[name](c, *map(float, numbers)), np.nan)
    x = (x - np.nanmean(x, 1, keepdims=True)) / np.maximum(np.nanstd(x, 1, keepdims=True), 1e-12)
    return np.nan_to_num(x).astype('f2')

@lru_cache(64)
def mixtures(c, kind):
    """Weights of counts, of returning counts, and of counts and P, by EM on the window"""
    def em(*L):
        L, pi = np.stack(L, 1) + EPS / c.m, np.ones(len(L))
        for _ in range(200):
            pi = share @ (pi * L / (L @ pi)[:, None]) + .05
            pi /= pi.sum()
        return pi
    d, j, share = c.aims(kind)
    a, r = em(*c.dist[j, :7].T), em(*c.dist[j, 7:].T)
    return a, r, em((c.dist[:, :7] @ a)[j], P(c)[d, j])

def column(c, name, mix):
    a, r, w = mix
    if name[-1] == '*':  # by length of history
        return c.length[:, None] * column(c, name[:-1], mix)
    if name[0] != 'X':
        return term(c, name)
    q = c.dist[:, 7:] @ r if name == 'X1' else w[0] * (c.dist[:, :7] @ a) + w[1] * P(c, float(name[3:] or 3))
    return np.log(np.broadcast_to(q, c.ok.shape) + EPS)

def fit(c, cols, mix, th0, l2, kind, size):
    """Softmax over the pool of each device, with a prior, by Newton"""
    b = np.where(c.ok, column(c, 'X0', mix) + .5 * column(c, 'X1', mix), -np.inf)
    J, y, (d, j, share), th = np.argsort(-b, 1)[:, :size + 28], np.zeros(b.shape), c.aims(kind), th0
    b, y[d, j] = take(b, J), share
    mask = (b >= b[:, [size - 1]]) & (b > -np.inf)  # ties with the last one come in
    X, y = np.stack([take(column(c, a, mix), J) for a in cols], 2), take(y, J) * mask
    n = y.sum(1, keepdims=True)
    for _ in range(20):
        p = n * softmax(np.where(mask, X @ th, -np.inf), 1)
        e = np.einsum('dj,djf->df', p, X)
        H = np.einsum('dj,djf,djg->fg', p, X, X, optimize=True) - (e / np.maximum(n, EPS)).T @ e + np.diag(l2)
        step = np.linalg.solve(H, np.einsum('dj,djf->f', p - y, X) + l2 * (th - th0))
        th = th - step / max(1, np.abs(step).max())
    return th

def ndcg(c, s, kind):
    """Ties rank last, and so do items that are not ok."""
    s, (d, j) = np.where(c.ok, s, -np.inf), c.targets[kind]
    rank = [(s[a] >= s[a, b]).sum() - 1 for a, b in zip(d, j)]
    gain, n = np.bincount(d, DISC[np.minimum(rank, 10)]), np.bincount(d)
    return gain / (n if kind == 'first' else np.cumsum(DISC)[np.minimum(n, 10) - 1])

def tide(cuts, kind, more, prior=THETA0, l2=20, l2x=None, pool=100, g=.5, count=-1):
    """NDCG by windows; l2 and l2x weigh the priors of the five terms and of others.
    count: only a decayed count, with the half-life that did best before."""
    if count >= 0:
        v = [[ndcg(c, x, kind) for x in c.counts.T[count:count + 6]] for c in cuts]
        return [v[z][np.argmax([np.concatenate(x).mean() for x in zip(*v[:z])])] for z in (1, 2, 3)]
    cols = [a for a in [*THETA0, *more.split()] if a[0] != '-' and '-' + a not in more]
    th0 = np.array([prior.get(a, 0) for a in cols])
    lam = np.array([l2 if a in THETA0 else l2x or l2 for a in cols])
    states, out = [], []
    for b, c in zip(cuts, cuts[1:]):
        mix = mixtures(b, kind)
        states.append((*mix, fit(b, cols, mix, th0, lam, kind, pool)))
        *mix, th = (np.average(x, 0, g ** np.arange(len(x))[::-1]) for x in zip(*states))
        out.append(ndcg(c, sum(x * column(c, a, mix) for a, x in zip(cols, th)), kind))
    return out

def settings():
    for row in ROWS.splitlines():
        if '|' not in row:
            lead = row
            continue
        *row, values = (row + '|||').split('|')[:4]
        for x in values.split() or ['']:
            name, more, options = [a.replace('@', x) for a in row]
            yield lead, name.strip(), eval(f'dict(more=more, {options})')

def main(folder, out):
    found = {}
    for k, (data, (name, sep)) in enumerate(FILES.items()):
        rows = read(data, f'{folder}/{name}', sep)
        cuts = [Cut(*rows, z, 10 * k + z) for z in range(4)]
        user = code(np.concatenate([c.dev for c in cuts[1:]]))
        n = np.bincount(user)
        W = np.random.default_rng(1).multinomial(len(n), np.ones(len(n)) / len(n), 2000)
        for lead, name, options in settings():
            v = np.stack([np.concatenate(tide(cuts, kind, **options)) for kind in ('first', 'all')])
            base = v if 'FedTide' in name else base
            boot = [W @ np.bincount(user, x) / (W @ n) for x in v - base]
            found.setdefault((lead, name), []).append((data, len(user), [*v.mean(1), *(v - base).mean(1)], boot))
    w = csv.writer(open(out, 'w'), lineterminator='\n')
    w.writerow('lead setting data users first all d_first low high d_all low_all high_all'.split())
    for row, r in found.items():
        for data, n, m, boot in r + [('mean', '', *(np.mean(x, 0) for x in [*zip(*r)][2:]))]:
            a, b = np.quantile(boot, (.025, .975), 1).T
            w.writerow([*row, data, n] + [f'{x:.4f}'.replace('0.', '.', 1) for x in (*m[:3], *a, m[3], *b)])

if __name__ == '__main__':
    main(*sys.argv[1:])
