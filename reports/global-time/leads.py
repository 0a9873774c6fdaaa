#!/usr/bin/env python3
"""Leads for the federated recommender FedTide, judged before the instant at 60 % of the ratings.

Usage: python3 leads.py DATA_DIR OUT.csv  (numpy and scipy)
Read: the four FILES. Of ml-1m users 1 to 2,999 are kept: they have true clock times.
Amazon and MovieTweetings are cut to their 5-core first, over all ratings.
Written: a row for each setting and data set, and their mean.
Settings: those of ROWS. It has leads 0 to 7 (not all settings of 0, 1, 2, 4 and 5), the two chosen of 14,
and the ablation (terms alone in 0, terms replaced in 11).

Cuts lie at 20, 30, 40 and 50 % of the sorted times. A window ends at the next cut, the last at 60 %.
Later ratings are dropped when read. A window is fitted with the package of its beginning.
It is ranked with the mean state of the windows before, weights 1, g, g^2 from the newest, g = .5.
The windows from 30, 40 and 50 % are evaluated, for users with a rating before the cut.
All items rated before the cut are ranked, except the user's own.
`first` is NDCG@10 of the items at the user's first instant in the window, `all` of all its items.
`users` counts pairs of user and window. Differences are to FedTide.
Intervals: 95 %, 2,000 bootstrap samples over users; a user's windows stay together.
Caution: THETA0 was found on this period of three sets (not MovieTweetings).
Leads 11 and 14 came after the other rows had been seen: they are picked by hindsight.
"""
import csv, sys
from functools import lru_cache
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

FILES = {'ml-100k': ('ml-100k/u.data', '\t'), 'ml-1m': ('ml-1m/ratings.csv', ','),
         'amazon': ('amazon-instant-video/ratings_Amazon_Instant_Video.csv', ','),
         'movietweetings': ('movietweetings-100k/ratings.dat', '::')}
HALF, EPS, DISC = [1, 3, 10, 30, 100, 400, 1e9], 1e-6, np.r_[1 / np.log2(np.arange(2, 12)), 0]
THETA0 = dict(X0=.8, X1=.3, e1=.15, e2=.05, age=-.3)  # the five terms and their prior means
# setting | terms more (- less) | options | values of @. Counts of drifts: 0 all, 7 those of returning users.
ROWS = '''0 base
FedTide of the prototype |
decayed count, best of windows before | | count=0
returning count, best of windows before | | count=7
qa alone (mixture of decayed counts) | -X0 -X1 -e1 -e2 -age qa | prior=dict(qa=1)
qr alone (mixture of returning counts) | -X0 -e1 -e2 -age
X0 alone (qa and P mixed) | -X1 -e1 -e2 -age
0 noise
a standard normal feature, seed @ | noise:@ | | 0 1 2
1 fallback
L2 @ | | l2=@ | 5 80 300 1000
prior (1,0,0,0,0), L2 @ | | prior=dict(X0=1), l2=@ | 20 80 300
ln qa apart, its prior 1, others 0, L2 @ | qa | prior=dict(qa=1), l2=@ | 20 80
2 length
theta_a + theta_b ln(n), L2 of b @ | X0* X1* e1* e2* age* | l2x=@ | 5 20 80 300
only X0 and X1 by ln(n), L2 20 | X0* X1*
3 drift
3/30 d, c @ | drift:3:30:@:0 | | 0.1 1 5
10/100 d, c @ | drift:10:100:@:0 | | 0.1 1 5
3/30 and 10/100 d, c @ | drift:3:30:@:0 drift:10:100:@:0 | | 0.1 1
1/10 d, c 0.1 | drift:1:10:.1:0
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
pairs besides e2, (.5, 0.5) | pairs:.5:.5
steps (.5, @) in place of e2 | -e2 steps:.5:@ | | 0.25 0.5 0.75
steps (.5, .5) besides e2 | steps:.5:.5
steps (1, 0) in place of e2 | -e2 steps:1:0
steps (.5, @), k 50 in place of e2 | -e2 steps:.5:@:50 | | 0 .25
7 pool
g @, pool 100 | | g=@ | 0 1
g 0.5, pool @ | | pool=@ | 50 300 1000
g 1, pool @ | | g=1, pool=@ | 300 1000
11 fit
drift all 3/30 in place of @ | -@ drift:3:30:.1:0 | | age X1
14 returning
returning 3/400 d, c 0.1 | drift:3:400:.1:7
returning 3/30 and all 10/100 d, c 1, L2 80 (drift 20) | drift:3:30:1:7 drift:10:100:1:0 | l2=80, l2x=20'''
f16 = lambda x: np.asarray(x, 'f2').astype(float)
take = lambda x, J: np.take_along_axis(x, J, 1)
code = lambda x: np.unique(x, return_inverse=True)[1]
recent = lambda states, g: np.average(states, 0, g ** np.arange(len(states))[::-1])

def read(folder, data):
    name, sep = FILES[data]
    rows = [line.split(sep) for line in open(f'{folder}/{name}')]
    if data == 'ml-1m':
        rows = [r for r in rows[1:] if int(r[0]) <= 2999]
    u, i, *_, t = zip(*rows)
    u, i, t = code(u), code(i), np.array(t, float)
    k = np.array('ml' in data)
    while not k.all():  # 5-core
        k = (np.bincount(u)[u] >= 5) & (np.bincount(i)[i] >= 5)
        u, i, t = u[k], i[k], t[k]
    cut = np.quantile(t, (.2, .3, .4, .5, .6))
    k = np.nonzero(t < cut[4])[0]  # nothing later goes further than this line
    k = k[np.lexsort((i[k], t[k], u[k]))]
    return code(u[k]), code(i[k]), t[k], cut

class Cut:
    """The server's sums at a cut, and the devices that have a window"""
    def __init__(c, u, i, t, cut, z, seed):
        c.seed, c.m = seed, i.max() + 1
        h, w = t < cut[z], (t >= cut[z]) & (t < cut[z + 1])
        c.dev = np.intersect1d(u[h], u[w])
        w &= np.isin(u, c.dev)
        d, j, t1 = np.searchsorted(c.dev, u[w]), i[w], t[w]
        k = t1 == t1[np.searchsorted(d, d)]  # at the first instant of the window
        c.targets = dict(first=(d[k], j[k]), all=(d, j))
        u, i, t = c.u, c.i, _ = u[h], i[h], t[h]
        c.days, time = (cut[z] - t) / 86400, u * 1e10 + t  # by user and time, as the rows
        visit = np.cumsum(np.diff(time, prepend=0) > 86400)  # ends with a gap of a day
        ret = visit > visit[np.searchsorted(u, u)]  # not in the user's first visit
        arrive = ret & (t == t[np.searchsorted(visit, visit)])  # at the first instant of a later visit
        c.counts, c.old, c.steps = np.zeros((c.m, 21)), np.zeros(c.m), np.zeros((c.m, c.m))
        dec, w = .5 ** (c.days / np.c_[HALF]), .5 ** (c.days / 200)
        np.add.at(c.counts, i, np.vstack([dec, dec * ret, dec * arrive]).T)
        c.live, c.dist = c.counts[:, 6] > 0, c.counts / np.maximum(c.counts.sum(0), 1e-9)
        np.maximum.at(c.old, i, c.days)
        for lag in range(1, 21):  # steps from the 20 own rows before, strictly earlier
            p = np.arange(lag, len(u))
            p = p[(u[p] == u[p - lag]) & (t[p] > t[p - lag])]
            np.add.at(c.steps, (i[p - lag], i[p]), w[p])
        np.fill_diagonal(c.steps, 0)
        x = sp.csr_matrix((np.sqrt(w), (u, i)), shape=(u[-1] + 1, c.m))
        c.pairs = (x.T @ x).toarray()
        c.nn = f16(np.maximum(np.diag(c.pairs), .1))
        e, U = eigsh(c.nn[:, None] ** -.25 * c.pairs * c.nn ** -.25, k=96, v0=np.ones(c.m) / np.sqrt(c.m))
        c.s, col = np.sqrt(e), np.abs(U).mean(0)
        top = np.maximum(f16(np.abs(U / col).max(1, keepdims=True)), 1e-7)
        c.U = np.clip(np.rint(U / col / top * 7), -7, 7) * top / 7 * col  # 4 bits a number
        k = np.isin(u, c.dev)
        c.d, c.di = np.searchsorted(c.dev, u[k]), i[k]  # own items
        c.n = np.bincount(c.d)
        c.rho = (np.searchsorted(u, u, 'right') - np.searchsorted(time, time, 'right'))[k]  # own items strictly later
        c.length = np.log(c.n) - np.median(np.log(np.unique(u, return_counts=True)[1]))
        c.ok = np.repeat(c.live[None], len(c.n), 0)
        c.ok[c.d, c.di] = False

    def own(c, w):
        return sp.csr_matrix((w, (c.d, c.di)), shape=c.ok.shape)

    def live_targets(c, kind):
        d, j = c.targets[kind]
        k = c.live[j]
        return d[k], j[k], 1 / np.bincount(d[k])[d[k]]

# terms (devices x items); all but P become z-scores of each device over the items that it ranks
def P(c, tau=3):
    A, w = c.U * c.s * c.nn[:, None] ** .25, np.exp(-c.rho / tau)
    total = np.maximum(A @ A.sum(0) - (A * A).sum(1), 0) + 5
    return np.maximum(c.own(w / np.bincount(c.d, w)[c.d] / total[c.di]) @ A @ A.T, 0)

def e1(c):
    Z = c.U * np.sqrt(c.s ** 2 / (c.s ** 2 + 6 * c.s[0] ** 2))
    return c.own(1 / c.n[c.d]) @ (c.nn[:, None] ** -.25 * Z) @ Z.T / (1 - np.minimum((Z * Z).sum(1), .99))

def near(c, D, k=10):
    """The k best neighbours of own items, one byte each"""
    np.fill_diagonal(D, 0)
    J = np.argpartition(-D, k, 1)[:, :k]
    v = take(D, J)
    top = f16(v.max(1, keepdims=True))
    v = np.rint(np.clip(v / np.maximum(top, 1e-12), 0, 1) * 255) * top / 255
    N = sp.csr_matrix((v.ravel(), J.ravel(), np.arange(c.m + 1) * k), shape=D.shape)
    return (c.own(.1 + np.exp(-c.rho / 3)) @ N).toarray()

def steps(c, a=.5, b=0, k=10):
    return near(c, c.steps / (c.steps.sum(1) + 1)[:, None] ** a / (c.steps.sum(0) + 1) ** b, int(k))

def drift(c, short, long, add, first):
    s, l = (np.log(c.counts[:, int(first) + HALF.index(h)] + add) for h in (short, long))
    return s - l

def als(c, K, a0, lam, half):
    """implicit ALS, weights with decay"""
    def solve(M, Y):
        X, G = [], a0 * (Y.T @ Y)
        for a, b in zip(M.indptr, M.indptr[1:]):
            y, w = Y[M.indices[a:b]], M.data[a:b]
            X.append(np.linalg.solve(G + (y.T * w) @ y + lam * (w.sum() + a0 * len(Y)) * np.eye(len(G)), w @ y))
        return np.array(X)
    Y = np.random.default_rng(0).normal(size=(c.m, int(K))) * .1
    M = sp.csr_matrix((.5 ** (c.days / half), (c.u, c.i)), shape=(c.u[-1] + 1, c.m))
    for _ in range(8):
        Y = solve(M.T.tocsr(), solve(M, Y))
    return solve(M, Y)[c.dev] @ Y.T

TERMS = dict(P=P, e1=e1, e2=steps, steps=steps, drift=drift, als=als, age=lambda c: f16(np.log1p(c.old)),
             pairs=lambda c, a, b: near(c, c.pairs / c.nn[:, None] ** a / c.nn ** b),
             noise=lambda c, seed: np.random.default_rng([int(seed), c.seed]).normal(size=c.ok.shape))

@lru_cache(64)
def term(c, name):
    """A name with numbers, such as drift:3:30:.1:7"""
    name, *numbers = name.split(':')
    x = TERMS[name](c, *map(float, numbers))
    if name == 'P':
        return x
    x = np.ma.array(np.broadcast_to(x, c.ok.shape), mask=~c.ok)
    return ((x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)).filled(0).astype('f2')

@lru_cache(64)
def mixtures(c, kind):
    """Weights of the counts, of the returning counts, and of counts and P, by EM on the window"""
    def em(*L):
        L, pi = np.stack(L, 1) + EPS / c.m, np.ones(len(L)) / len(L)
        for _ in range(200):
            x = pi * L
            pi = share @ (x / x.sum(1, keepdims=True)) + .05
            pi /= pi.sum()
        return pi
    d, j, share = c.live_targets(kind)
    a, r = em(*c.dist[j, :7].T), em(*c.dist[j, 7:].T)
    return a, r, em((c.dist[:, :7] @ a)[j], term(c, 'P')[d, j])

def column(c, name, mix):
    q = c.dist[:, 7:] @ mix[1] if name == 'X1' else c.dist[:, :7] @ mix[0]
    if name[-1] == '*':  # by the length of the history
        return c.length[:, None] * column(c, name[:-1], mix)
    if name[:2] == 'X0':
        return np.log(mix[2][0] * q + mix[2][1] * term(c, 'P' + name[2:]) + EPS)
    return np.broadcast_to(np.log(q + EPS), c.ok.shape) if name in ('qa', 'X1') else term(c, name)

def fit(c, cols, mix, th0, l2, kind, size):
    """Softmax over the pool of each device, with a prior, by Newton"""
    b = np.where(c.ok, column(c, 'X0', mix) + .5 * column(c, 'X1', mix), -np.inf)
    J, (d, j, share) = np.argsort(-b, 1)[:, :size + 28], c.live_targets(kind)
    v = take(b, J)
    mask = (v >= v[:, [size - 1]]) & np.isfinite(v)  # ties with the last one come in
    y = np.zeros(b.shape)
    y[d, j] = share
    y = take(y, J) * mask
    k, th = y.sum(1) > 0, th0
    X, y, mask = np.stack([take(column(c, a, mix), J)[k] for a in cols], 2).astype(float), y[k], mask[k]
    for _ in range(20):
        s = np.where(mask, X @ th, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        p *= (y.sum(1) / p.sum(1))[:, None]
        e = np.einsum('dj,djf->df', p, X)
        H = np.einsum('dj,djf,djg->fg', p, X, X, optimize=True) - (e.T / y.sum(1)) @ e + np.diag(l2)
        step = np.linalg.solve(H, np.einsum('dj,djf->f', p - y, X) + l2 * (th - th0))
        th = th - step / max(1, np.abs(step).max())
    return th

def ndcg(c, s, kind):
    """Ties rank last; an item that is not ranked is a miss"""
    s, (d, j) = np.where(c.ok, s, -np.inf), c.targets[kind]
    rank = [(s[a] >= s[a, b]).sum() - 1 if c.ok[a, b] else 10 for a, b in zip(d, j)]
    gain, n = np.bincount(d, DISC[np.minimum(rank, 10)]), np.bincount(d)
    return gain / (n if kind == 'first' else np.cumsum(DISC)[np.minimum(n, 10) - 1])

# settings: NDCG of all devices, window by window
def tide(cuts, kind, more, prior=THETA0, l2=20, l2x=None, pool=100, g=.5, count=None):
    """FedTide with terms more or less; l2 and l2x weigh the priors of the five terms and of others.
    count: a decayed count instead, with the half-life that was best in the windows before."""
    if count is not None:
        v = [[ndcg(c, x, kind) for x in c.counts.T[count:count + 6]] for c in cuts]
        best = [np.argmax([np.concatenate(w).mean() for w in zip(*v[:z])]) for z in (1, 2, 3)]
        return [w[k] for w, k in zip(v[1:], best)]
    cols = [a for a in [*THETA0, *more.split()] if a[0] != '-' and '-' + a not in more]
    th0 = np.array([prior.get(a, 0) for a in cols])
    lam = np.array([l2 if a in THETA0 else l2x or l2 for a in cols])
    mix, th, out = [], [], []
    for b, c in zip(cuts, cuts[1:]):
        mix.append(mixtures(b, kind))
        th.append(fit(b, cols, mix[-1], th0, lam, kind, pool))
        now = [recent(x, g) for x in zip(*mix)]
        out.append(ndcg(c, sum(x * column(c, a, now) for a, x in zip(cols, recent(th, g))), kind))
    return out

def settings():
    for row in ROWS.splitlines():
        if '|' not in row:
            lead = row
            continue
        *row, values = [x.strip() for x in (row + '|||').split('|')[:4]]
        for x in values.split() or ['']:
            name, more, options = [a.replace('@', x) for a in row]
            yield lead, name, dict(eval(f'dict({options})'), more=more)

def main(folder, out):
    found = {}
    for k, data in enumerate(FILES):
        rows = read(folder, data)
        cuts = [Cut(*rows, z, 10 * k + z) for z in range(4)]
        user = code(np.concatenate([c.dev for c in cuts[1:]]))
        n = user.max() + 1
        W = np.random.default_rng(1).multinomial(n, np.ones(n) / n, size=2000).astype('f4')
        W /= (W @ np.bincount(user))[:, None]
        for lead, name, options in settings():
            v = [np.concatenate(tide(cuts, kind, **options)) for kind in ('first', 'all')]
            base = v if 'FedTide' in name else base
            boot = [W @ np.bincount(user, x - b) for x, b in zip(v, base)]
            v = [x.mean() for x in v] + [(x - b).mean() for x, b in zip(v, base)]
            found.setdefault((lead, name), []).append((data, len(user), v, boot))
    with open(out, 'w') as file:
        w = csv.writer(file)
        w.writerow('lead setting data users first all d_first low high d_all low_all high_all'.split())
        for row, r in found.items():
            for data, n, v, boot in r + [('mean', '', *(np.mean(x, 0) for x in list(zip(*r))[2:]))]:
                (a, b), (c, d) = np.quantile(boot, (.025, .975), 1).T
                v = v[0], v[1], v[2], a, b, v[3], c, d
                w.writerow([*row, data, n] + [f'{x:.4f}'.replace('0.', '.', 1) for x in v])

if __name__ == '__main__':
    main(*sys.argv[1:])
