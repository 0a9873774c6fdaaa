//! Measures ranking in a whole catalogue, the products of all pairs of users' tables, the contrast of
//! clusters of items, and the inverse of a matrix: `cargo bench --bench dense`.
//!
//! `cargo bench --bench dense -- 11830 2` inverts a matrix of 11,830 rows by two threads, in place
//! of 3,706 rows by one; the products are by as many threads. Beside them numpy is timed by turns, if
//! `python3` has it (`PYTHON` names another interpreter). Machines are noisy, so compare figures of
//! one run.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

mod common;

use common::median_ns;
use fedrecsim_core::{PortableDraws, Purpose, Streams};
use fedrecsim_data::dataset;
use fedrecsim_methods::registry::vocabulary;
use fedrecsim_model::algebra::{add_gram, add_pair_products, invert, mirror_upper, weighted_sums};
use fedrecsim_model::neural::contrast::add_contrast;
use fedrecsim_scenario as scenario;
use fedrecsim_sim::World;
use fedrecsim_sim::workers::{Pool, Scoring, Threads};
use ndarray::{Array2, Axis};

/// Users and items of the ranking.
const USERS: usize = 8_072;
const ITEMS: usize = 11_830;

/// Users of MovieLens 100K, and the values of a table of 32 columns for its items.
const TABLES: (usize, usize) = (943, 1_682 * 32);

/// The columns that are multiplied at a time.
const PART: usize = 4_096;

/// Prints the seconds of what GPFedRec's server multiplies in a round, the zeros of its graph as well. Small products before it start
/// numpy's threads.
const NUMPY_PRODUCTS: &str = "
import sys, time, numpy
draws = numpy.random.default_rng(0)
x = draws.standard_normal([int(word) for word in sys.argv[1:]])
x[:64] @ x[:64].T
start = time.perf_counter()
numpy.maximum(x @ x.T, 0) @ x
print(time.perf_counter() - start)
";

/// Prints the seconds of twenty gradients of the contrast, up to a factor, of so many rows and columns in
/// so many clusters.
const NUMPY_CONTRAST: &str = "
import sys, time, numpy
m, k, clusters = [int(word) for word in sys.argv[1:]]
draws = numpy.random.default_rng(0)
x = draws.standard_normal((m, k)).astype('f')
labels = draws.integers(0, clusters, m)
def contrast():
    lengths = numpy.linalg.norm(x, axis=1, keepdims=True)
    u = x / lengths
    e = u @ u.T
    e -= 1
    e /= numpy.float32(.1)
    numpy.exp(e, out=e)
    numpy.fill_diagonal(e, 0)
    factors = 1 / e.sum(axis=1)
    e *= factors[:, None] + factors
    pushed = e @ u
    totals = numpy.zeros((clusters, k), 'f')
    numpy.add.at(totals, labels, u)
    others = numpy.maximum(numpy.bincount(labels, minlength=clusters)[labels] - 1, 1).astype('f')
    h = pushed - 2 / others[:, None] * (totals[labels] - u)
    return (h - (h * u).sum(axis=1, keepdims=True) * u) / lengths
contrast()
start = time.perf_counter()
for _ in range(20):
    contrast()
print(time.perf_counter() - start)
";

/// Prints the seconds of an inverse. A small one before it starts numpy's threads.
const NUMPY_INVERSE: &str = "
import sys, time, numpy
x = numpy.random.default_rng(0).standard_normal((int(sys.argv[1]),) * 2)
a = x @ x.T + len(x) * numpy.eye(len(x))
numpy.linalg.inv(a[:64, :64])
start = time.perf_counter()
numpy.linalg.inv(a)
print(time.perf_counter() - start)
";

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    let size = numbers.first().copied().unwrap_or(3_706);
    let threads = numbers.get(1).copied().unwrap_or(1);
    for dimension in [32, 128] {
        ranking(dimension);
    }
    contrast();
    products_of_pairs(threads);
    inverse(size, threads);
}

/// Adds the contrast of CoFedRec on MovieLens 100K and its gradient, twenty times on one thread.
fn contrast() {
    let [rows, columns, clusters] = [1_682, 32, 60];
    let mut stream = Streams::new(1).stream(Purpose::GlobalInit, 0, 0);
    let table: Vec<f32> = (0..rows * columns)
        .map(|_| stream.standard_normal() as f32)
        .collect();
    let labels: Vec<u32> = (0..rows).map(|_| stream.below(clusters as u32)).collect();
    let what = format!("contrast of {rows} rows of {columns} values, 20 times");
    let sizes = [rows, columns, clusters];
    beside_numpy(&what, 1, (NUMPY_CONTRAST, &sizes), || {
        let mut gradient = vec![0.0; table.len()];
        for _ in 0..20 {
            add_contrast((&table, columns), &labels, [0.1, 0.5, 0.005], &mut gradient);
        }
        black_box(gradient);
    });
}

/// Multiplies all pairs of tables, and adds those of neighbours up, as GPFedRec's server does.
fn products_of_pairs(threads: usize) {
    let mut stream = Streams::new(1).stream(Purpose::GlobalInit, 0, 0);
    let tables = Array2::from_shape_simple_fn(TABLES, || stream.standard_normal());
    let sent = tables.mapv(|value| value as f32);
    let rows: Vec<&[f32]> = (sent.rows().into_iter())
        .filter_map(|row| row.to_slice())
        .collect();
    let what = format!("products of {} tables of {} values", TABLES.0, TABLES.1);
    beside_numpy(
        &what,
        threads,
        (NUMPY_PRODUCTS, &[TABLES.0, TABLES.1]),
        || {
            let mut products = Array2::zeros((TABLES.0, TABLES.0));
            for part in tables.axis_chunks_iter(Axis(1), PART) {
                add_pair_products(&mut products, &part);
            }
            mirror_upper(&mut products);
            // Half of all pairs are neighbours. numpy multiplies by the zeros of the others.
            let neighbours = products.mapv(|product| product.max(0.0));
            let mut sums = vec![vec![0.0; TABLES.1]; TABLES.0];
            let mut targets: Vec<_> = sums.iter_mut().map(Vec::as_mut_slice).collect();
            weighted_sums(&neighbours.view(), &rows, &mut targets);
            black_box(sums);
        },
    );
}

/// Ranks the held-out items of all users among all items that they have not rated, on one thread.
fn ranking(dimension: usize) {
    let text = format!(
        "method.mf = {{ latent_dimension = {dimension} }}\n[dataset]\nname = \"generated\"\n\
         [dataset.generator]\nusers = {USERS}\nitems = {ITEMS}\nratings_per_user = 12\n\
         [training]\nrounds = 1\n[evaluation]\nranking = \"full-catalogue\"\n"
    );
    let scenario = scenario::parse(&text, "bench", &[], &vocabulary()).unwrap();
    let data = dataset::load(&scenario.dataset, &[], Streams::new(1)).unwrap();
    let world = Arc::new(World::new(scenario, Arc::new(data)).unwrap());
    let model = world.method.initial();
    let workers = Threads::new(world, Pool::start(1).unwrap(), Arc::default());
    let nanoseconds = median_ns(5, || {
        let scoring = Scoring::AtServer(model.clone());
        let scored = finish(workers.score(0..USERS, scoring, false)).unwrap();
        assert_eq!(black_box(scored).len(), USERS);
    });
    let count = (USERS * ITEMS * dimension) as f64;
    println!(
        "ranking {USERS} users x {ITEMS} items x {dimension}: {:.3} s, {:.1} G multiply-adds/s",
        nanoseconds / 1e9,
        count / nanoseconds
    );
}

/// Waits for what the threads compute.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Inverts a matrix by turns with numpy.
fn inverse(size: usize, threads: usize) {
    let mut stream = Streams::new(1).stream(Purpose::GlobalInit, 0, 0);
    let rows = Array2::from_shape_fn((64, size), |_| stream.standard_normal());
    let mut matrix = Array2::eye(size) * size as f64;
    add_gram(&mut matrix, &rows.view(), None);
    let what = format!("inverse of {size} rows");
    beside_numpy(&what, threads, (NUMPY_INVERSE, &[size]), || {
        let mut copy = matrix.clone();
        invert(&mut copy).unwrap();
        black_box(copy);
    });
}

/// Times `compute` on this many threads, by turns with a script of numpy.
fn beside_numpy(what: &str, threads: usize, script: (&str, &[usize]), compute: impl Fn() + Sync) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        pool.install(&compute);
        let seconds = start.elapsed().as_secs_f64();
        match numpy(script, threads) {
            Some(other) => println!(
                "{what}, {threads} threads: {seconds:.2} s, numpy {other:.2} s, ratio {:.2}",
                seconds / other
            ),
            None => println!("{what}, {threads} threads: {seconds:.2} s, no numpy"),
        }
    }
}

/// Returns the seconds that numpy takes, if it is there.
fn numpy((script, sizes): (&str, &[usize]), threads: usize) -> Option<f64> {
    let interpreter = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    // These variables would choose kernels for another processor.
    let output = Command::new(interpreter)
        .args(["-c", script])
        .args(sizes.iter().map(usize::to_string))
        .env_remove("OPENBLAS_CORETYPE")
        .env_remove("OPENBLAS_L2_SIZE")
        .env("OPENBLAS_NUM_THREADS", threads.to_string())
        .stderr(std::process::Stdio::null())
        .output();
    String::from_utf8(output.ok()?.stdout)
        .ok()?
        .trim()
        .parse()
        .ok()
}
